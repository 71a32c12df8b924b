"""What guards read at a call: nothing of the user's runs meanwhile, and nothing they compare with is gone."""

import paddle
import paddle_sot_rs as sot
import pytest


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
