//! One guard at a time: which change makes it fail.

use std::sync::Arc;

use paddle_sot::guard::{GuardFailure, GuardKind};
use paddle_sot::tracker::{DictKey, FunctionField, Tracker, TrackerRef};
use rstest::rstest;

use super::world::{
    World, attr, class_attr, elements, field, free_cell, key, texts, with_world, x,
};

/// Values that differ in type or value, whatever `==` says.
const CONSTANTS: [&str; 32] = [
    "1",
    "1.0",
    "True",
    "(1+0j)",
    "0",
    "0.0",
    "-0.0",
    "False",
    "0j",
    "-0j",
    "complex(0.0, -0.0)",
    "None",
    "float('nan')",
    "float('inf')",
    "-float('inf')",
    "10**30",
    "10**30 + 1",
    "'1'",
    "b'1'",
    "''",
    "b''",
    "...",
    "(1, 2)",
    "(1.0, 2)",
    "(1,)",
    "()",
    "slice(0, 1)",
    "slice(0, True)",
    "slice(0, 1, None) and slice(0, 1, 1)",
    "range(0, 3, 2)",
    "range(0, 4, 2)",
    "range(0)",
];

#[rstest]
fn a_constant_equals_itself_only(#[values(false, true)] below_an_attribute: bool) {
    with_world("", |world| {
        let path = if below_an_attribute {
            attr(x(), "a")
        } else {
            x()
        };
        for expected in CONSTANTS {
            let guard = world.guard(&[(&path, GuardKind::ConstEq(world.eval(expected)))]);
            for actual in CONSTANTS {
                let wrap = if below_an_attribute {
                    "A(a=eval(text))"
                } else {
                    "eval(text)"
                };
                world.run(&format!("text = {actual:?}\nx = {wrap}"));
                assert_eq!(
                    world.holds(&*guard),
                    expected == actual,
                    "{expected} and {actual}"
                );
            }
        }
    });
}

#[test]
fn a_subclass_of_a_constant_is_not_the_constant() {
    with_world("class Int(int): pass", |world| {
        let guard = world.guard(&[(&x(), GuardKind::ConstEq(world.eval("1")))]);
        world.run("x = Int(1)");
        assert!(!world.holds(&*guard));
    });
}

type MakePath = fn() -> TrackerRef;
type MakeKind = fn(&World<'_>) -> GuardKind;

#[rstest]
#[case::type_other("x = [1]", x, |w: &World| GuardKind::TypeIs(w.eval("list")), "x = (1,)", "x = []")]
#[case::type_subclass("x = [1]", x, |w: &World| GuardKind::TypeIs(w.eval("list")), "x = List(x)", "x = []")]
#[case::type_assigned("x = A()", x, |w: &World| GuardKind::TypeIs(w.eval("A")), "x.__class__ = B", "x.__class__ = A")]
#[case::type_below(
    "x = A(a=1)", || attr(x(), "a"), |w: &World| GuardKind::TypeIs(w.eval("int")), "x.a = True", "x.a = 2"
)]
#[case::identity("x = z = [1]", x, |w: &World| GuardKind::Is(w.eval("z")), "x = [1]", "x = z")]
#[case::identity_none("x = None", x, |w: &World| GuardKind::Is(w.eval("None")), "x = 0", "x = None")]
#[case::identity_below(
    "z = A(); x = A(a=z)", || attr(x(), "a"), |w: &World| GuardKind::Is(w.eval("z")), "x.a = A()", "x.a = z"
)]
#[case::value_below(
    "x = A(a=1)", || attr(x(), "a"), |w: &World| GuardKind::ConstEq(w.eval("1")), "x.a = True", "x.a = 1"
)]
#[case::value_two_below(
    "z = A(b=1); x = A(a=z)", || attr(attr(x(), "a"), "b"), |w: &World| GuardKind::ConstEq(w.eval("1")),
    "x.a = A(b=2)", "x.a = z"
)]
#[case::value_in_the_same_parent(
    "z = A(b=1); x = A(a=z)", || attr(attr(x(), "a"), "b"), |w: &World| GuardKind::ConstEq(w.eval("1")),
    "z.b = 2", "z.b = 1"
)]
#[case::value_in_a_new_dictionary(
    "x = A(a=1)", || attr(x(), "a"), |w: &World| GuardKind::ConstEq(w.eval("1")), "x.__dict__ = {'a': 2}", "x.a = 1"
)]
#[case::value_by_vars(
    "x = A(a=1)", || attr(x(), "a"), |w: &World| GuardKind::ConstEq(w.eval("1")), "vars(x)['a'] = 2", "vars(x)['a'] = 1"
)]
#[case::length_of_a_list("x = [1, 2]", x, |_: &World| GuardKind::Len(2), "x.append(3)", "x.pop()")]
#[case::length_of_a_tuple("x = (1, 2)", x, |_: &World| GuardKind::Len(2), "x += (3,)", "x = (0, 0)")]
#[case::length_of_a_dict("x = {1: 2, 3: 4}", x, |_: &World| GuardKind::Len(2), "x[5] = 6", "del x[5]")]
#[case::length_of_a_set("x = {1, 2}", x, |_: &World| GuardKind::Len(2), "x.add(3)", "x.remove(3)")]
#[case::length_of_another_kind("x = [1, 2]", x, |_: &World| GuardKind::Len(2), "x = A()", "x = [0, 0]")]
#[case::filled_no_more("x = {1}", x, |_: &World| GuardKind::Filled(true), "x.clear()", "x.add(2)")]
#[case::filled("x = []", x, |_: &World| GuardKind::Filled(false), "x.append(0)", "x.clear()")]
#[case::element_removed(
    "x = {'a', 1}", x, |w: &World| GuardKind::Holds(w.eval("'a'"), true), "x.discard('a')", "x.update({'a', 3.5})"
)]
#[case::element_added(
    "x = {1}", x, |w: &World| GuardKind::Holds(w.eval("'a'"), false), "x.add('a')", "x.clear()"
)]
#[case::element_that_is_a_class(
    "x = {A}", x, |w: &World| GuardKind::Holds(w.eval("A"), true), "x = {int}", "x = frozenset({A, int})"
)]
#[case::element_of_another_kind(
    "x = {1}", x, |w: &World| GuardKind::Holds(w.eval("1"), true), "x = [1]", "x = {1, 2}"
)]
#[case::elements_added("x = {1, 2}", x, |w: &World| elements(w, "x"), "x.add(3)", "x.remove(3)")]
#[case::elements_exchanged("x = {1, 2}", x, |w: &World| elements(w, "x"), "x = {1, 3}", "x = {1, 2}")]
#[case::elements_that_are_equal("x = {1, 2}", x, |w: &World| elements(w, "x"), "x = {True, 2}", "x = {1, 2}")]
#[case::elements_in_another_order(
    "x = {1, 9}", x, |w: &World| elements(w, "x"), "x = {9, 1}", "x = {1, 9}"
)]
#[case::keys_added("x = dict(a=1, b=2)", x, |_: &World| texts(&["a", "b"]), "x['c'] = 3", "del x['c']")]
#[case::keys_removed("x = dict(a=1, b=2)", x, |_: &World| texts(&["a", "b"]), "del x['b']", "x['b'] = 0")]
#[case::keys_replaced("x = dict(a=1)", x, |_: &World| texts(&["a"]), "x = dict(b=1)", "x = dict(a=0)")]
#[case::keys_in_another_order(
    "x = dict(a=1, b=2)", x, |_: &World| texts(&["a", "b"]), "x['a'] = x.pop('a')", "x['b'] = x.pop('b')"
)]
#[case::keys_of_an_ordered_dict(
    "x = collections.OrderedDict(a=1, b=2)", x, |_: &World| texts(&["a", "b"]), "x.move_to_end('a')",
    "x.move_to_end('b')"
)]
#[case::keys_that_are_equal(
    "x = {1: 0}", x, |_: &World| GuardKind::DictKeys(vec![DictKey::Int(1)]), "x = {True: 0}", "x = {1: 0}"
)]
#[case::keys_by_identity(
    "z = object(); x = {z: 0}", x, |w: &World| GuardKind::DictKeys(vec![DictKey::Identity(w.eval("z"))]),
    "x = {object(): 0}", "x = {z: 0}"
)]
#[case::keys_of_an_instance(
    "x = A(a=1)", || Arc::new(Tracker::InstanceDict(x())), |_: &World| texts(&["a"]), "x.b = 2", "del x.b"
)]
#[case::present("x = A(a=1)", || attr(x(), "a"), |_: &World| GuardKind::Present, "del x.a", "x.a = 2")]
#[case::absent("x = A()", || attr(x(), "a"), |_: &World| GuardKind::Absent, "x.a = 1", "del x.a")]
#[case::present_key("x = dict(a=1)", || key(x(), DictKey::Str("a".into())), |_: &World| GuardKind::Present, "x.clear()", "x['a'] = 2")]
#[case::absent_key("x = {}", || key(x(), DictKey::Int(3)), |_: &World| GuardKind::Absent, "x[3] = 0", "x.clear()")]
#[case::absent_in_the_class("x = A()", || class_attr(x(), "z"), |_: &World| GuardKind::Absent, "A.z = 1", "del A.z")]
#[case::absent_in_a_base("x = A()", || class_attr(x(), "z"), |_: &World| GuardKind::Absent, "Base.z = 1", "del Base.z")]
#[case::method_replaced(
    "x = A(); z = A.method", || class_attr(x(), "method"), |w: &World| GuardKind::Is(w.eval("z")),
    "A.method = function", "A.method = z"
)]
#[case::method_of_what_is_below(
    "x = A(a=A()); z = A.method", || class_attr(attr(x(), "a"), "method"), |w: &World| GuardKind::Is(w.eval("z")),
    "A.method = function", "A.method = z"
)]
#[case::slot_deleted(
    "x = Slots(); x.s = 1", || Arc::new(Tracker::Member(x(), "s".into())), |_: &World| GuardKind::Present,
    "del x.s", "x.s = 2"
)]
#[case::slot_value(
    "x = Slots(); x.s = 1", || Arc::new(Tracker::Member(x(), "s".into())), |w: &World| GuardKind::ConstEq(w.eval("1")),
    "x.s = 1.0", "x.s = 1"
)]
#[case::list_item(
    "x = [1, 2]", || Arc::new(Tracker::ListItem(x(), 1)), |w: &World| GuardKind::ConstEq(w.eval("2")), "x[1] = 2.0",
    "x[1] = 2"
)]
#[case::list_item_gone(
    "x = [1, 2]", || Arc::new(Tracker::ListItem(x(), 1)), |_: &World| GuardKind::Present, "x.pop()", "x.append(0)"
)]
#[case::tuple_item(
    "x = (1, 2)", || Arc::new(Tracker::TupleItem(x(), 1)), |w: &World| GuardKind::ConstEq(w.eval("2")), "x = (1, 3)",
    "x = (0, 2)"
)]
#[case::cell_content(
    "x = 0; closure = (types.CellType(1),)", || Arc::new(Tracker::CellContents(free_cell())),
    |w: &World| GuardKind::ConstEq(w.eval("1")), "closure[0].cell_contents = 2", "closure[0].cell_contents = 1"
)]
#[case::cell_emptied(
    "x = 0; closure = (types.CellType(1),)", || Arc::new(Tracker::CellContents(free_cell())),
    |_: &World| GuardKind::Present, "del closure[0].cell_contents", "closure[0].cell_contents = 1"
)]
#[case::other_cell(
    "x = 0; z = types.CellType(1); closure = (z,)", free_cell, |w: &World| GuardKind::Is(w.eval("z")),
    "closure = (types.CellType(1),)", "closure = (z,)"
)]
#[case::code_of_a_function(
    "x = function; z = x.__code__", || field(x(), FunctionField::Code), |w: &World| GuardKind::Is(w.eval("z")),
    "x.__code__ = (lambda a, b=2, *, c=3: b).__code__", "x.__code__ = z"
)]
#[case::defaults_of_a_function(
    "x = function", || Arc::new(Tracker::TupleItem(field(x(), FunctionField::Defaults), 0)),
    |w: &World| GuardKind::ConstEq(w.eval("2")), "x.__defaults__ = (2.0,)", "x.__defaults__ = (2,)"
)]
#[case::defaults_gone(
    "x = function", || Arc::new(Tracker::TupleItem(field(x(), FunctionField::Defaults), 0)),
    |_: &World| GuardKind::Present, "x.__defaults__ = None", "x.__defaults__ = (0,)"
)]
#[case::keyword_defaults_of_a_function(
    "x = function", || key(field(x(), FunctionField::KwDefaults), DictKey::Str("c".into())),
    |w: &World| GuardKind::ConstEq(w.eval("3")), "x.__kwdefaults__['c'] = 4", "x.__kwdefaults__['c'] = 3"
)]
#[case::receiver_of_a_method(
    "z = A(); x = z.method", || Arc::new(Tracker::MethodSelf(x())), |w: &World| GuardKind::Is(w.eval("z")),
    "x = A().method", "x = z.method"
)]
#[case::function_of_a_method(
    "z = A(); x = z.method", || Arc::new(Tracker::MethodFunc(x())), |w: &World| GuardKind::Is(w.eval("A.method")),
    "x = types.MethodType(function, z)", "x = z.method"
)]
#[case::aliases("x = A(a=[]); x.b = x.a", || attr(x(), "a"), |_: &World| GuardKind::SameAs(attr(x(), "b")), "x.a = []", "x.a = x.b")]
fn a_guard_fails_from_a_change_until_it_is_undone(
    #[case] setup: &str,
    #[case] path: MakePath,
    #[case] kind: MakeKind,
    #[case] change: &str,
    #[case] undo: &str,
    // After the first check that held, parts of the program may be skipped.
    #[values(0, 1, 3)] calls_before: usize,
) {
    with_world(setup, |world| {
        let guard = world.guard(&[(&path(), kind(world))]);
        for _ in 0..calls_before {
            assert_eq!(world.check(&*guard), Ok(vec![]), "before any change");
        }
        for _ in 0..2 {
            world.run(change);
            assert_eq!(
                world.check(&*guard),
                Err(GuardFailure::Guard(0)),
                "after the change"
            );
            world.run(undo);
            assert_eq!(
                world.check(&*guard),
                Ok(vec![]),
                "after the change was undone"
            );
        }
    });
}

#[rstest]
#[case::values_of_keys("x = dict(a=1)", x, |_: &World| texts(&["a"]), "x['a'] = 2")]
#[case::items_of_a_list("x = [1]", x, |_: &World| GuardKind::Len(1), "x[0] = A()")]
#[case::other_attributes("x = A(a=1)", || attr(x(), "a"), |w: &World| GuardKind::ConstEq(w.eval("1")), "x.b = 2")]
#[case::an_equal_constant("x = 10**30", x, |w: &World| GuardKind::ConstEq(w.eval("10**30")), "x = 10**29 * 10")]
#[case::another_instance("x = A(a=1)", || attr(x(), "a"), |w: &World| GuardKind::ConstEq(w.eval("1")), "x = A(a=1)")]
fn what_was_not_relied_on_may_change(
    #[case] setup: &str,
    #[case] path: MakePath,
    #[case] kind: MakeKind,
    #[case] change: &str,
) {
    with_world(setup, |world| {
        let guard = world.guard(&[(&path(), kind(world))]);
        assert!(world.holds(&*guard));
        world.run(change);
        assert!(world.holds(&*guard) && world.holds(&*guard));
    });
}
