//! Names of methods that the simulator calls itself: in place of instructions, operators and
//! constructors.

/// `list.append`, `deque.append`
pub const APPEND: &str = "append";

/// `list.extend`, `deque.extend`
pub const EXTEND: &str = "extend";

/// `dict.update`, `set.update`
pub const UPDATE: &str = "update";

/// `clear` of what can change.
pub const CLEAR: &str = "clear";

/// `copy` of what can change.
pub const COPY: &str = "copy";

/// `list.pop`
pub const POP: &str = "pop";

/// `list.reverse`
pub const REVERSE: &str = "reverse";

/// `keys`
pub const KEYS: &str = "keys";

/// `values`
pub const VALUES: &str = "values";

/// `items`
pub const ITEMS: &str = "items";
