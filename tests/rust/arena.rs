//! The undo log behind the simulation: roll-back is exact.

use std::rc::Rc;

use paddle_sot::variables::{Arena, Kind, VarId, Variable};
use rstest::rstest;

/// Everything that can be seen of an arena.
fn picture(arena: &Arena) -> (Vec<String>, Vec<VarId>) {
    let variables = (0..arena.len() as u32).map(|id| format!("{:?}", arena.get(VarId(id))));
    (variables.collect(), arena.mutated().to_vec())
}

fn list(items: &[VarId]) -> Variable {
    Variable::new(Kind::List(items.to_vec()))
}

fn items(arena: &Arena, id: VarId) -> Vec<VarId> {
    let Kind::List(items) = arena.kind(id) else {
        panic!("not a list: {:?}", arena.kind(id));
    };
    items.clone()
}

/// What a simulated `list.append` does.
fn append(arena: &mut Arena, id: VarId, item: VarId) {
    arena.mutate(id, |var| {
        let Kind::List(items) = &mut var.kind else {
            panic!("not a list");
        };
        items.push(item);
    });
}

/// Two empty lists.
fn two_lists() -> (Arena, VarId, VarId) {
    let mut arena = Arena::default();
    let (a, b) = (arena.add(list(&[])), arena.add(list(&[])));
    (arena, a, b)
}

#[test]
fn ids_are_given_in_order() {
    let mut arena = Arena::default();
    assert!(arena.is_empty());
    let ids = [0, 1, 2].map(|_| arena.add(list(&[])));
    assert_eq!(ids, [VarId(0), VarId(1), VarId(2)]);
    assert_eq!((arena.len(), arena.is_empty()), (3, false));
}

#[test]
fn two_names_of_one_variable_see_the_same_change() {
    let (mut arena, a, b) = two_lists();
    let alias = a;
    append(&mut arena, a, b);
    assert_eq!(items(&arena, alias), [b]);
    assert_eq!(items(&arena, b), []);
}

#[test]
fn a_change_does_not_reach_who_holds_the_old_state() {
    let (mut arena, a, b) = two_lists();
    let before = Rc::clone(arena.get(a));
    append(&mut arena, a, b);
    assert!(matches!(&before.kind, Kind::List(items) if items.is_empty()));
    assert_eq!(items(&arena, a), [b]);
}

#[test]
fn update_and_mutate_answer_with_what_the_change_answers() {
    let (mut arena, a, _) = two_lists();
    assert_eq!(arena.update(a, |_| 3), 3);
    assert_eq!(arena.mutate(a, |_| "four"), "four");
}

#[test]
fn only_mutations_are_journaled_once_in_order_of_the_first() {
    let (mut arena, a, b) = two_lists();
    arena.update(a, |var| var.kind = Kind::Opaque);
    assert_eq!(arena.mutated(), []);
    assert!(!arena.get(a).mutated);
    append(&mut arena, b, a);
    arena.mutate(a, |var| var.kind = Kind::Null);
    append(&mut arena, b, b);
    assert_eq!(arena.mutated(), [b, a]);
    assert!(arena.get(a).mutated && arena.get(b).mutated);
}

#[rstest]
#[case::nothing(|_: &mut Arena, _, _| ())]
#[case::an_addition(|arena: &mut Arena, a, _| { arena.add(list(&[a])); })]
#[case::an_update(|arena: &mut Arena, a, _| arena.update(a, |var| var.kind = Kind::Null))]
#[case::a_mutation(|arena: &mut Arena, a, b| append(arena, a, b))]
#[case::a_second_mutation_of_the_same(|arena: &mut Arena, _, b| append(arena, b, b))]
#[case::many_changes_of_one_variable(|arena: &mut Arena, a, b| for _ in 0..5 { append(arena, a, b) })]
#[case::a_new_variable_that_is_changed(|arena: &mut Arena, a, b| {
    let new = arena.add(list(&[a]));
    append(arena, new, b);
    append(arena, b, new);
})]
#[case::changes_of_the_flags(|arena: &mut Arena, a, _| arena.update(a, |var| var.mutated = true))]
fn roll_back_restores_everything(#[case] change: fn(&mut Arena, VarId, VarId)) {
    let (mut arena, a, b) = two_lists();
    append(&mut arena, b, a);
    let before = picture(&arena);
    let mark = arena.mark();
    change(&mut arena, a, b);
    arena.rollback(mark);
    assert_eq!(picture(&arena), before);
    // What happens next is what would have happened at once.
    assert_eq!(arena.add(list(&[])), VarId(2));
    append(&mut arena, a, b);
    assert_eq!(arena.mutated(), [b, a]);
}

#[test]
fn a_mutation_that_was_rolled_back_is_journaled_when_it_happens_again() {
    let (mut arena, a, b) = two_lists();
    let mark = arena.mark();
    append(&mut arena, a, b);
    arena.rollback(mark);
    assert_eq!(arena.mutated(), []);
    append(&mut arena, b, a);
    append(&mut arena, a, b);
    assert_eq!(arena.mutated(), [b, a]);
}

#[test]
fn a_mark_can_be_returned_to_more_than_once() {
    let (mut arena, a, b) = two_lists();
    let before = picture(&arena);
    let mark = arena.mark();
    for _ in 0..3 {
        append(&mut arena, a, b);
        arena.rollback(mark);
        assert_eq!(picture(&arena), before);
    }
}

/// A small generator of numbers: the same sequence in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

/// Random changes with nested checkpoints, each compared with a picture taken at the checkpoint.
#[rstest]
fn nested_checkpoints_restore_what_they_saw(#[values(1, 2, 3, 4, 5, 6, 7, 8)] seed: u64) {
    let mut numbers = Numbers(seed);
    let mut arena = Arena::default();
    arena.add(list(&[]));
    let mut checkpoints = Vec::new();
    for _ in 0..400 {
        let id = VarId(numbers.below(arena.len()) as u32);
        let other = VarId(numbers.below(arena.len()) as u32);
        match numbers.below(6) {
            0 => {
                arena.add(list(&[id]));
            }
            1 | 2 => append(&mut arena, id, other),
            3 => arena.update(id, |var| var.kind = Kind::List(vec![other])),
            4 => checkpoints.push((arena.mark(), picture(&arena))),
            _ => {
                let keep = numbers.below(checkpoints.len() + 1);
                if let Some((mark, seen)) = checkpoints.drain(keep..).next() {
                    arena.rollback(mark);
                    assert_eq!(picture(&arena), seen);
                }
            }
        }
    }
    while let Some((mark, seen)) = checkpoints.pop() {
        arena.rollback(mark);
        assert_eq!(picture(&arena), seen);
    }
}
