"""What guards read at a call: nothing of the user's runs meanwhile, and nothing they compare with is gone."""

import gc

import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec


def translate(function, **options):
    return sot.to_static(function, min_graph_size=0, **options)


def test_a_gate_opens_only_where_distinct_objects_are():
    class Net:
        pass

    def function(net, x, n):
        net.a.append(0)
        net.b.append(0)
        size = len(net.a)
        net.a.pop()
        net.b.pop()
        return x * n if size == 3 else x * 100

    net = Net()
    net.a, net.b = [0], [0]
    translated = translate(function)
    x = paddle.ones([2])
    for _ in range(4):
        translated(net, x, 1)
    net.b = net.a
    for n in (1, 2, 3, 4):
        assert translated(net, x, n).tolist() == function(net, x, n).tolist()


@pytest.mark.parametrize("name", ["_updated_padding", "_stride"])
def test_an_item_of_a_list_of_a_layer_at_the_address_of_the_one_before(name):
    layer = paddle.nn.Conv2D(1, 1, 3, padding=[int("1000") - 700] * 2, stride=[int("1000") - 700] * 2)

    def function(x):
        return layer(x) * 2

    translated = translate(function)
    x = paddle.ones([1, 1, 4, 4])
    for _ in range(3):
        assert translated(x).shape == function(x).shape
    items = getattr(layer, name)
    for number in (401, 502, 603, 704):
        items.pop()
        items.append(int(str(number)))
        assert translated(x).shape == function(x).shape


def test_what_guards_found_stays_while_a_declaration_is_asked():
    def function(x, items):
        return items[0] * 2

    class Cycle:
        def __init__(self, items):
            self.items = items
            self.itself = self

        def __del__(self):
            self.items.clear()

    translated = translate(function, input_spec=[InputSpec([None, 4], "float32")])
    x = paddle.ones([3, 4])
    for rows in (3, 5, 3, 4):
        translated(paddle.ones([rows, 4]), [paddle.full([3, 4], 3.0)])
    threshold = gc.get_threshold()
    try:
        for more in range(60):
            gc.collect()
            gc.disable()
            items = [paddle.full([3, 4], 5.0)]
            Cycle(items)
            gc.set_threshold(gc.get_count()[0] + more)
            gc.enable()
            try:
                result = translated(x, items)
            except IndexError:
                continue
            assert result.tolist() == [[10.0] * 4] * 3
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
