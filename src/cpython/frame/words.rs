//! The static data of the interpreter, word by word: for what it keeps there and does not export.

use std::ffi::c_void;

unsafe extern "C" {
    static _PyRuntime: u8;
}

/// The words of `_PyRuntime`, which contains the main interpreter.
pub(super) struct Words {
    start: *const usize,
    count: usize,
}

impl Words {
    /// `None` when the symbol's size is not known.
    pub fn of_runtime() -> Option<Self> {
        let start = std::ptr::addr_of!(_PyRuntime);
        // SAFETY: plain queries of the dynamic linker; `entry` points into the symbol table.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            let mut entry: *mut c_void = std::ptr::null_mut();
            let found = dladdr1(start.cast(), &mut info, &mut entry, RTLD_DL_SYMENT);
            let symbol = entry.cast::<libc::Elf64_Sym>().as_ref()?;
            if found == 0 || info.dli_saddr.cast_const() != start.cast() || symbol.st_size < 4096 {
                return None;
            }
            Some(Self {
                start: start.cast(),
                count: symbol.st_size as usize / std::mem::size_of::<usize>(),
            })
        }
    }

    /// The addresses of the words that satisfy `wanted`.
    pub fn find(&self, wanted: impl Fn(usize) -> bool) -> Vec<*const usize> {
        (0..self.count)
            .map(|index| self.start.wrapping_add(index))
            // SAFETY: within the symbol; other threads may write, hence volatile.
            .filter(|word| wanted(unsafe { word.read_volatile() }))
            .collect()
    }

    /// Whether `bytes` from `address` on lie inside.
    pub fn contains(&self, address: usize, bytes: usize) -> bool {
        let start = self.start as usize;
        let end = start + self.count * std::mem::size_of::<usize>();
        address >= start && address.saturating_add(bytes) <= end
    }
}

const RTLD_DL_SYMENT: i32 = 1;

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: i32,
    ) -> i32;
}
