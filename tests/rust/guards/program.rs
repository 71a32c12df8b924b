//! Several guards together: order, shared prefixes, slots, distinct objects, global state.

use std::sync::Arc;

use paddle_sot::guard::{GuardFailure, GuardKind, GuardSet};
use paddle_sot::tracker::{DictKey, Tracker};
use pyo3::prelude::*;
use rstest::rstest;

use super::world::{attr, key, set, texts, with_world, x, y};

#[test]
fn a_guard_that_cannot_be_checked_never_holds() {
    with_world("x = iter([])", |world| {
        let guard = world.guard(&[(&x(), GuardKind::Never)]);
        assert_eq!(world.check(&*guard), Err(GuardFailure::Guard(0)));
    });
}

#[test]
fn no_user_code_runs() {
    with_world("x = Hostile(1); y = {'k': x}", |world| {
        let slice = GuardKind::ConstEq(world.eval("slice(0, 1)"));
        let guard = world.guard(&[
            (&x(), GuardKind::TypeIs(world.eval("Hostile"))),
            (&attr(x(), "value"), GuardKind::ConstEq(world.eval("1"))),
            (&attr(x(), "absent"), GuardKind::Absent),
            (&y(), texts(&["k"])),
            (&key(y(), DictKey::Str("k".into())), GuardKind::SameAs(x())),
        ]);
        assert!(world.holds(&*guard) && world.holds(&*guard));
        world.run("x = slice(Hostile(0), 1)");
        assert_eq!(
            world.check(&*world.guard(&[(&x(), slice)])),
            Err(GuardFailure::Guard(0))
        );
    });
}

#[test]
fn an_object_compared_by_identity_is_not_kept_alive() {
    with_world("x = A(); dead = weakref.ref(x)", |world| {
        let guard = world.guard(&[(&x(), GuardKind::Is(world.eval("x")))]);
        assert!(world.holds(&*guard));
        // The new one may lie at the old one's address.
        world.run("x = None; gone = dead() is None; x = A()");
        assert!(world.eval("gone").bind(world.py).is_truthy().unwrap());
        assert_eq!(world.check(&*guard), Err(GuardFailure::Guard(0)));
    });
}

#[test]
fn the_first_guard_that_fails_is_named() {
    with_world("x = A(a=1, b=[]); y = 'k'", |world| {
        let guard = world.guard(&[
            (&x(), GuardKind::TypeIs(world.eval("A"))),
            (&attr(x(), "a"), GuardKind::ConstEq(world.eval("1"))),
            (&attr(x(), "b"), GuardKind::Len(0)),
            (&y(), GuardKind::ConstEq(world.eval("'k'"))),
        ]);
        let expected = ["type(x) is A", "x.a == 1", "len(x.b) == 0", "y == 'k'"];
        assert_eq!(guard.describe(), expected);
        for (change, undo, index) in [
            ("y = 'l'", "y = 'k'", 3),
            ("x.b.append(0); y = 'l'", "y = 'k'; x.b.clear()", 2),
            ("x.a = 2; x.b.append(0)", "x.a = 1; x.b.clear()", 1),
            ("x = B()", "x = A(a=1, b=[])", 0),
        ] {
            assert!(world.holds(&*guard));
            world.run(change);
            let failure = GuardFailure::Guard(index);
            assert_eq!(world.check(&*guard), Err(failure), "{change}");
            assert_eq!(guard.describe_failure(failure), expected[index]);
            world.run(undo);
        }
    });
}

#[test]
fn guards_with_one_prefix_see_its_change() {
    with_world("x = A(c=A(a=1, b=2)); z = x.c", |world| {
        let prefix = attr(x(), "c");
        let guards = set(&[
            (
                &attr(prefix.clone(), "a"),
                GuardKind::ConstEq(world.eval("1")),
            ),
            (
                &attr(prefix.clone(), "b"),
                GuardKind::ConstEq(world.eval("2")),
            ),
        ]);
        let guard = world.compile(&guards, &[prefix]);
        let found = |expression: &str| Ok(vec![world.eval(expression).as_ptr() as usize]);
        assert_eq!(world.check(&*guard), found("z"));
        world.run("x.c = A(a=1, b=3)");
        assert_eq!(world.check(&*guard), Err(GuardFailure::Guard(1)));
        world.run("x.c = A(a=0, b=2)");
        assert_eq!(world.check(&*guard), Err(GuardFailure::Guard(0)));
        world.run("x.c = other = A(a=1, b=2)");
        assert_eq!(world.check(&*guard), found("other"));
        world.run("x.c = z");
        assert_eq!(world.check(&*guard), found("z"));
    });
}

#[test]
fn of_two_entries_with_one_prefix_the_right_one_holds() {
    with_world("x = A(c=A(mode=1)); z = x.c", |world| {
        let mode = attr(attr(x(), "c"), "mode");
        let entry = |value: &str| {
            let kind = GuardKind::ConstEq(world.eval(value));
            world.compile(&set(&[(&mode, kind)]), std::slice::from_ref(&mode))
        };
        let (one, two) = (entry("1"), entry("2"));
        for round in 0..4 {
            for (change, expected) in [
                ("x.c.mode = 2", (false, true)),
                ("x.c = A(mode=1)", (true, false)),
                ("x = A(c=A(mode=2))", (false, true)),
                ("x.c.mode = 3", (false, false)),
                ("x.c = z; z.mode = 1", (true, false)),
            ] {
                world.run(change);
                let holding = (world.holds(&*one), world.holds(&*two));
                assert_eq!(holding, expected, "{change}, round {round}");
            }
        }
    });
}

#[test]
fn the_values_that_were_checked_are_handed_out() {
    with_world("x = A(a=[5]); y = (6, x)", |world| {
        let slots = [
            Arc::new(Tracker::TupleItem(y(), 1)),
            Arc::new(Tracker::ListItem(attr(x(), "a"), 0)),
            x(),
        ];
        let guard = world.compile(&GuardSet::default(), &slots);
        let address = |expression: &str| world.eval(expression).as_ptr() as usize;
        for change in [
            "pass",
            "x.a = [7]",
            "x.a[0] = 8",
            "x = A(a=[9]); y = (0, x)",
        ] {
            world.run(change);
            let expected = ["y[1]", "x.a[0]", "x"].map(address);
            assert_eq!(world.check(&*guard), Ok(expected.into()), "{change}");
        }
        world.run("x.a.clear()");
        let failed = world.check(&*guard).unwrap_err();
        assert_eq!(
            guard.describe_failure(failed),
            "a value that the graph needs is missing"
        );
    });
}

#[test]
fn objects_that_were_distinct_must_stay_so() {
    with_world("x = A(a=[], b=[]); y = []", |world| {
        let mut guards = GuardSet::default();
        for tracker in [attr(x(), "a"), attr(x(), "b"), y()] {
            guards.add_distinct(&tracker);
        }
        let guard = world.compile(&guards, &[]);
        for (change, undo) in [
            ("x.a = x.b", "x.a = []"),
            ("y = x.b", "y = []"),
            ("x.b = y", "x.b = []"),
        ] {
            assert!(world.holds(&*guard) && world.holds(&*guard));
            world.run(change);
            let failed = world.check(&*guard).unwrap_err();
            assert_eq!(
                guard.describe_failure(failed),
                "arguments that must be different objects"
            );
            world.run(undo);
        }
    });
}

#[rstest]
#[case::grad_mode("framework.global_var._dygraph_tracer_._has_grad", "False")]
#[case::amp_level("framework.global_var._dygraph_tracer_._amp_level", "1")]
#[case::static_mode("framework.global_var._dygraph_tracer_", "None")]
#[case::device("framework._global_expected_place_", "'gpu'")]
#[case::default_dtype("helper._LayerHelperBase__dtype", "'float64'")]
fn global_state_is_always_checked(#[case] place: &str, #[case] other: &str) {
    let setup = "
import sys
framework = sys.modules['paddle.base.framework']
helper = sys.modules['paddle.base.layer_helper_base'].LayerHelperBase
x = 1";
    with_world(setup, |world| {
        let guard = world.guard(&[(&x(), GuardKind::ConstEq(world.eval("1")))]);
        assert!(world.holds(&*guard));
        world.run(&format!("known = {place}; {place} = {other}"));
        let failed = world.check(&*guard);
        world.run(&format!("{place} = known"));
        assert_eq!(failed, Err(GuardFailure::State));
        assert_eq!(
            guard.describe_failure(GuardFailure::State),
            "grad mode, AMP, default dtype or device"
        );
        assert!(world.holds(&*guard));
    });
}

#[test]
fn a_guard_set_has_no_repetition_and_rolls_back() {
    let mut guards = set(&[(&x(), GuardKind::Present), (&x(), GuardKind::Len(2))]);
    let mark = guards.mark();
    guards.add(&x(), GuardKind::Present);
    assert_eq!(guards.len(), 2);
    guards.add(&y(), GuardKind::Present);
    guards.add_distinct(&y());
    assert_eq!((guards.len(), guards.distinct().count()), (3, 1));
    guards.rollback(mark);
    let kinds: Vec<_> = guards.iter().map(|guard| guard.kind.clone()).collect();
    assert_eq!(kinds, [GuardKind::Present, GuardKind::Len(2)]);
    assert_eq!(guards.distinct().count(), 0);
    guards.add(&y(), GuardKind::Present);
    assert_eq!(guards.len(), 3);
}
