//! Where the ways out of a loop lead to.

use crate::bytecode::{Code, flow};
use crate::loops::LoopRegion;

/// Whether the ways from `at`, outside of the loop, end in returns of their own, or lead to the end
/// of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// The end of the loop is behind what it cleans up.
    Exit,
    /// They return.
    Return,
    /// They go on where the end of the loop leads to too, or in a loop around this one.
    Elsewhere,
}

/// Where a way out of `region` leads to.
pub fn way_out(code: &Code, region: &LoopRegion, at: usize) -> WayOut {
    let around: Vec<usize> = flow::loops(code)
        .into_iter()
        .filter(|found| found.header != region.header && found.body.contains(&region.header))
        .map(|found| found.header)
        .collect();
    let reach = |from: usize| {
        let mut seen = vec![from];
        let mut next = 0;
        let mut comes_back = false;
        while let Some(&at) = seen.get(next) {
            next += 1;
            if region.body.contains(&at) || around.contains(&at) {
                comes_back = true;
                continue;
            }
            for to in flow::successors(code, at) {
                if !seen.contains(&to) {
                    seen.push(to);
                }
            }
        }
        (seen, comes_back)
    };
    let (seen, comes_back) = reach(at);
    if seen.iter().any(|at| flow::place(code, *at) == region.exit) {
        return WayOut::Exit;
    }
    let (behind, _) = reach(region.exit);
    if comes_back || seen.iter().any(|at| behind.contains(at)) {
        return WayOut::Elsewhere;
    }
    WayOut::Return
}
