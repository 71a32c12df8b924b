//! [`GuardFailure`]: why a translation does not fit a call.

/// What was not as it was at the translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuardFailure {
    /// The guard in this place of its set.
    Guard(usize),
    /// The state of the process: grad mode, AMP, default dtype or device.
    State,
    /// Objects that must differ from each other are one.
    OneObject,
    /// A value that the graph needs is not there.
    Missing,
    /// A key says itself what it is equal to: it cannot be looked up without running Python.
    Key,
}

impl GuardFailure {
    /// The failure in words; `texts` are those of the guards, in order.
    pub(super) fn describe(self, texts: &[String]) -> String {
        let words = match self {
            Self::Guard(index) => texts.get(index).map_or("a guard", |text| text),
            Self::State => "grad mode, AMP, default dtype or device",
            Self::OneObject => "arguments that must be different objects",
            Self::Missing => "a value that the graph needs is missing",
            Self::Key => "a key that says itself what it is equal to",
        };
        words.to_owned()
    }
}
