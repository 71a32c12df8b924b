//! The location table and the exception table (CPython: `Objects/locations.md`,
//! `Objects/exception_handling_notes.txt`).

use super::code::Loc;

fn read_varint(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut value = 0u32;
    let mut shift = 0;
    loop {
        let byte = bytes.next()?;
        value |= u32::from(byte & 63).checked_shl(shift)?;
        shift += 6;
        if byte & 64 == 0 {
            return Some(value);
        }
    }
}

fn read_svarint(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = read_varint(bytes)?;
    let magnitude = i64::from(value >> 1);
    Some(if value & 1 == 1 {
        -magnitude
    } else {
        magnitude
    })
}

/// One location per code unit.
pub fn decode_locations(table: &[u8], firstlineno: u32) -> Option<Vec<Loc>> {
    let mut bytes = table.iter().copied();
    let mut line = i64::from(firstlineno);
    let mut units = Vec::new();
    while let Some(first) = bytes.next() {
        let length = usize::from(first & 7) + 1;
        let code = (first >> 3) & 15;
        let mut byte = || bytes.next().map(u32::from);
        let loc = match code {
            15 => Loc::default(),
            14 => {
                line += read_svarint(&mut bytes)?;
                let end_line = line + i64::from(read_varint(&mut bytes)?);
                let col = read_varint(&mut bytes)?.checked_sub(1);
                let end_col = read_varint(&mut bytes)?.checked_sub(1);
                Loc {
                    line: u32::try_from(line).ok(),
                    end_line: u32::try_from(end_line).ok(),
                    col,
                    end_col,
                }
            }
            13 => {
                line += read_svarint(&mut bytes)?;
                Loc::line_only(line)
            }
            10..=12 => {
                line += i64::from(code - 10);
                let (col, end_col) = (byte()?, byte()?);
                Loc {
                    col: Some(col),
                    end_col: Some(end_col),
                    ..Loc::line_only(line)
                }
            }
            _ => {
                let second = byte()?;
                let col = u32::from(code) * 8 + ((second >> 4) & 7);
                Loc {
                    col: Some(col),
                    end_col: Some(col + (second & 15)),
                    ..Loc::line_only(line)
                }
            }
        };
        units.extend(std::iter::repeat_n(loc, length));
    }
    Some(units)
}

fn write_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 64 {
        out.push(64 | (value & 63) as u8);
        value >>= 6;
    }
    out.push(value as u8);
}

fn write_svarint(out: &mut Vec<u8>, value: i64) {
    let magnitude = value.unsigned_abs() as u32;
    write_varint(out, (magnitude << 1) | u32::from(value < 0));
}

/// Encodes runs of (location, code units).
pub fn encode_locations(runs: &[(Loc, usize)], firstlineno: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut line = i64::from(firstlineno);
    for (loc, units) in runs {
        let mut left = *units;
        while left > 0 {
            let length = left.min(8);
            left -= length;
            let head = |code: u8| 128 | (code << 3) | (length - 1) as u8;
            let Some(at) = loc.line else {
                out.push(head(15));
                continue;
            };
            let delta = i64::from(at) - line;
            line = i64::from(at);
            let end_line = loc.end_line.unwrap_or(at).max(at);
            if end_line == at && loc.col.is_none() && loc.end_col.is_none() {
                out.push(head(13));
                write_svarint(&mut out, delta);
                continue;
            }
            // The long form; a column that is not there is a zero.
            let column = |col: Option<u32>| col.map_or(0, |col| col.saturating_add(1));
            out.push(head(14));
            write_svarint(&mut out, delta);
            write_varint(&mut out, end_line - at);
            write_varint(&mut out, column(loc.col));
            write_varint(&mut out, column(loc.end_col));
        }
    }
    out
}

/// (start, end, target, depth, lasti), in code units.
pub type RawException = (usize, usize, usize, u32, bool);

/// Decodes the exception table.
pub fn decode_exceptions(table: &[u8]) -> Option<Vec<RawException>> {
    let mut bytes = table.iter().copied().peekable();
    let mut entries = Vec::new();
    let varint = |first: u8, bytes: &mut dyn Iterator<Item = u8>| {
        let mut value = usize::from(first & 63);
        let mut more = first & 64 != 0;
        while more {
            let byte = bytes.next()?;
            value = (value << 6) | usize::from(byte & 63);
            more = byte & 64 != 0;
        }
        Some(value)
    };
    while let Some(first) = bytes.next() {
        let start = varint(first & 127, &mut bytes)?;
        let mut field = || {
            let first = bytes.next()?;
            varint(first, &mut bytes)
        };
        let (length, target, depth_lasti) = (field()?, field()?, field()?);
        entries.push((
            start,
            start + length,
            target,
            (depth_lasti >> 1) as u32,
            depth_lasti & 1 == 1,
        ));
    }
    Some(entries)
}

/// The inverse of [`decode_exceptions`].
pub fn encode_exceptions(entries: &[RawException]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut write = |value: usize, start: bool| {
        let mut groups = vec![(value & 63) as u8];
        let mut rest = value >> 6;
        while rest > 0 {
            groups.push((rest & 63) as u8 | 64);
            rest >>= 6;
        }
        groups.reverse();
        if start {
            groups[0] |= 128;
        }
        out.extend(groups);
    };
    for &(start, end, target, depth, lasti) in entries {
        write(start, true);
        write(end - start, false);
        write(target, false);
        write(((depth as usize) << 1) | usize::from(lasti), false);
    }
    out
}
