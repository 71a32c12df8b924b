//! [`Frames`]: the frames being simulated, and those of generators that wait.

use std::rc::Rc;

use crate::frame_state::{FrameState, SimulatedFrame};
use crate::reason::SourceLoc;
use crate::variables::VarId;

/// Where the simulation is. The executor keeps it current.
#[derive(Debug, Default)]
pub struct Frames {
    /// User locations of the frames being simulated, outermost first.
    pub locations: Vec<SourceLoc>,
    /// The same frames, as what is called in one sees it.
    pub simulated: Vec<SimulatedFrame>,
    /// The instruction of the outermost frame that is being simulated.
    pub outermost: usize,
    /// Generators of the frame that are running.
    pub running: Vec<VarId>,
    suspended: Vec<Rc<FrameState>>,
}

impl Frames {
    /// The simulation of a frame begins; `first` is the first variable that is made in it.
    pub(crate) fn enter(&mut self, frame: &FrameState, loc: SourceLoc, first: usize) {
        self.locations.push(loc);
        self.simulated.push(SimulatedFrame::of(frame, first));
    }

    /// The simulation of the innermost frame ends, or is left for now.
    pub(crate) fn leave(&mut self) {
        self.simulated.pop();
        self.locations.pop();
    }

    /// Whether a generator frame was ever kept.
    pub(crate) fn suspends(&self) -> bool {
        !self.suspended.is_empty()
    }

    /// Keeps a suspended generator frame; the answer names it.
    pub(crate) fn suspend(&mut self, frame: FrameState) -> usize {
        self.suspended.push(Rc::new(frame));
        self.suspended.len() - 1
    }

    /// A suspended generator frame.
    pub fn suspended(&self, frame: usize) -> &FrameState {
        &self.suspended[frame]
    }
}
