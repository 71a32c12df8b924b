//! Texts that show numbers made of dims, as keys of dicts and sets: `f"{h}x{w}"`.
//!
//! Two such texts are equal where their numbers are: guards compare those. What stands around a
//! number says where it ends.

use std::sync::Arc;

use crate::reason::BreakId;
use crate::variables::{Key, Kind, TextPart, VarId};

use crate::{Step, Tracer, arguments, keys, texts};

/// A text in front of each number, and one behind the last.
#[derive(PartialEq, Eq)]
struct Pattern {
    literals: Vec<String>,
    numbers: Vec<VarId>,
}

impl Pattern {
    /// What a text shows; `None` where it shows more than whole numbers made of dims, or one may
    /// go on in the next.
    fn of(t: &mut Tracer<'_>, id: VarId) -> Option<Self> {
        let Kind::Text(parts) = t.kind(id).clone() else {
            return None;
        };
        let (mut literals, mut numbers) = (vec![String::new()], Vec::new());
        for part in parts.iter() {
            match part {
                TextPart::Text(text) => literals.last_mut()?.push_str(&t.const_str(*text)?),
                TextPart::Shown(function, args) => {
                    let [number] = args[..] else {
                        return None;
                    };
                    let is_open = matches!(t.kind(number), Kind::Int(_));
                    let plain = texts::shows_plainly(t, *function);
                    (is_open && plain && arguments::depends_on_dims(t, number)).then_some(())?;
                    numbers.push(number);
                    literals.push(String::new());
                }
            }
        }
        let goes_on = |literal: &String| literal.starts_with(|it: char| it.is_ascii_digit());
        let between = literals.get(1..numbers.len()).unwrap_or_default();
        let ends = !literals[1..].iter().any(goes_on) && !between.iter().any(String::is_empty);
        (ends && !numbers.is_empty()).then_some(Self { literals, numbers })
    }

    /// The numbers that a known text shows in these places; `None` where it is another text.
    fn shown_by(&self, text: &str) -> Option<Vec<i64>> {
        let mut rest = text.strip_prefix(&*self.literals[0])?;
        let mut found = Vec::with_capacity(self.numbers.len());
        for literal in &self.literals[1..] {
            let sign = usize::from(rest.starts_with('-'));
            let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
            let (number, behind) = rest.split_at(sign + digits);
            let value: i64 = number.parse().ok()?;
            // Python shows no zeros in front.
            (value.to_string() == number).then_some(())?;
            found.push(value);
            rest = behind.strip_prefix(&**literal)?;
        }
        rest.is_empty().then_some(found)
    }

    /// Whether no number makes both the same text: they begin or end with other letters.
    fn is_unlike(&self, other: &Self) -> bool {
        let (a, b) = (&*self.literals[0], &*other.literals[0]);
        let begins = !a.starts_with(b) && !b.starts_with(a);
        let last = |it: &Self| it.literals.last().cloned().unwrap_or_default();
        let (a, b) = (&*last(self), &*last(other));
        begins || !a.ends_with(b) && !b.ends_with(a)
    }
}

/// The key that a known text is: guards say that the texts made of dims are others, or that one is
/// this text.
pub(crate) fn known_key(t: &mut Tracer<'_>, text: Arc<str>) -> Step<Key> {
    for open in t.flow.open_texts.clone() {
        if shows(t, open, &text)? {
            return Ok(Key::Open(open));
        }
    }
    t.flow.text_keys.insert(text.clone());
    Ok(Key::Str(text))
}

/// The key that a text made of dims is: guards compare it with all other keys.
pub(crate) fn open_key(t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
    let Some(pattern) = Pattern::of(t, id) else {
        return refuse(t);
    };
    for other in t.flow.open_texts.clone() {
        match Pattern::of(t, other) {
            Some(known) if known.literals == pattern.literals => {
                let pairs: Vec<_> = known
                    .numbers
                    .into_iter()
                    .zip(pattern.numbers.clone())
                    .collect();
                if are_equal(t, &pairs)? {
                    return Ok(Key::Open(other));
                }
            }
            Some(known) if known.is_unlike(&pattern) => {}
            _ => return refuse(t),
        }
    }
    let mut known: Vec<Arc<str>> = t.flow.text_keys.iter().cloned().collect();
    known.retain(|text| pattern.shown_by(text).is_some());
    known.sort();
    for text in known {
        if shows(t, id, &text)? {
            return Ok(Key::Str(text));
        }
    }
    t.flow.open_texts.push(id);
    Ok(Key::Open(id))
}

/// Whether a text made of dims is this one in this call, and has to be or not in others.
fn shows(t: &mut Tracer<'_>, open: VarId, text: &str) -> Step<bool> {
    let Some(pattern) = Pattern::of(t, open) else {
        return refuse(t);
    };
    let Some(shown) = pattern.shown_by(text) else {
        return Ok(false);
    };
    let shown: Vec<VarId> = shown.into_iter().map(|number| t.int(number)).collect();
    let pairs: Vec<_> = pattern.numbers.into_iter().zip(shown).collect();
    are_equal(t, &pairs)
}

fn are_equal(t: &mut Tracer<'_>, pairs: &[(VarId, VarId)]) -> Step<bool> {
    for (a, b) in pairs {
        if !keys::are_equal(t, *a, *b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn refuse<T>(t: &Tracer<'_>) -> Step<T> {
    t.stop(BreakId::Key, "a key that is not a constant")
}
