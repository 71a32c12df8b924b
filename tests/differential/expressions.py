"""Expressions by kind, as tables of templates.

`$T` is an expression of kind T, `$T0` a short one, `${a|b}` one of the texts, `$=T1` a new variable of kind T (the same one
wherever the number is the same), `$_a` a name of its own that nothing else uses.
"""

from __future__ import annotations

import random
import re

from statements import STATEMENTS

# Not here, for Paddle's own faults: indices out of range (memory is overwritten), lists as indices
# of strided views. What stands for a kind where no variable has it.
LEAVES = {
    "T": "(WEIGHT * 1.0)[:2]",
    "R": "WEIGHT.mean()",
    "I": "2",
    "F": "0.5",
    "B": "True",
    "S": '"s"',
    "L": "[1, 2, 3]",
    "M": "[WEIGHT[:2] * 2]",
    "D": '{"a": 1}',
    "O": "Box(WEIGHT[:2] + 0)",
    "P": "(1, 2)",
    "V": "Vec(WEIGHT[:2] - 1, 3)",
    "W": "Point(WEIGHT[:2] + 1, 4)",
    "N": "np.ones([2, 3], dtype='float32')",
    "U": "{1, 2}",
    "Q": "collections.deque([1, 2], maxlen=4)",
    "H": "KEEP",
    "A": "MARK",
    "J": "Noted(3)",
    "G": "Noted(2)",
}

TABLES = {
    "T": """
        ($T + $T)
        ($T - $T)
        ($T * $T)
        ($T ${+|-|*} $I)
        ($F ${+|-|*} $T)
        ($T / ${2|3.5|-4})
        ($T ${+|-|*} $R)
        $T.${tanh|abs|sigmoid|square|clone|detach|sin|neg}()
        F.${relu|gelu|softmax|sigmoid|silu}($T)
        paddle.matmul($T, WEIGHT)
        ($T @ WEIGHT)
        (-$T)
        paddle.where($T > $F0, $T, $T0)
        paddle.concat([$T, $T0], axis=0)[: $T0.shape[0]]
        paddle.stack([$T, $T0]).${sum|mean|max}(${0|axis=0})
        $T.reshape([-1, 3])
        $T.reshape([$T0.shape[0], 3])
        $T.transpose([1, 0]).t()
        paddle.clip($T, -1.0, ${1.0|2})
        paddle.${maximum|minimum}($T, $T0)
        paddle.split($T, 3, axis=1)[${0|1|2}].expand([-1, 3])
        ($T if $B else $T)
        spread($T, $T0, scale=$F0)
        spread(*[$T, $I0], **{'k': $R0})
        soft($T)
        memo($T)
        sum([$T, $T0])
        $O.value
        $O($T)
        (lambda v, k=$I0: v * k + $F0)($T)
        functools.reduce(lambda a, b: a + b, $M)
        $T.astype('float64').astype('float32')
        $T[:, ${::1|:|0:}]
        paddle.index_select($T, paddle.to_tensor([2, 0, 1]), axis=1)
        paddle.cumsum($T, axis=${0|1})
        Box.shifted($T, by=$F0)
        $V.value
        ($V + $T).value
        ($T0 + $V.value)
        ($V * $T0)[0:]
        $W.x
        $W.moved($F0).x
        dataclasses.replace($W, x=$T0).x
        Thin($T0, n=$I0).x
        Mode.${ADD|MUL}.apply($T)
        Row($T, right=$I0).left
        operator.${add|mul|sub}($T, $T0)
        functools.partial(spread, scale=$F0)($T, $I0)
        strict($T, ${2|$I0}, third=$I0)
        halves($T, ${1|2|3})
        NET($T)
        NET($T, scale=$F0)
        (NET.linear($T) if NET.training else $T0)
        NET.row($T)
        NET.row${[1]|[:1]|[-1]|[::-1]|.first|.soft}($T)
        NET.parts[$I0 % len(NET.parts) if len(NET.parts) else 0]($T)
        functools.reduce(lambda v, part: part(v), NET.${parts|row|children()}, $T)
        next(tensors($T0, 2))
        list(itertools.islice(tensors($T0, 3), 1, 2))[0]
        [v for v in itertools.chain([$T0], $M)][-1]
        copy.copy($O).value
        (paddle.zeros([$T0.shape[0], 3]) + $F0)
        ($T + paddle.arange($T0.shape[0], dtype='float32').unsqueeze(1))
        ($T * paddle.full([3], $F0))
        (paddle.ones_like($T0) * $I0)
        paddle.to_tensor($N)
        paddle.to_tensor([[1.0, 2.0, 3.0]]).expand([$T0.shape[0], 3])
        paddle.to_tensor($T0.numpy() * 2)
        $T0.unsqueeze(0).squeeze(0)
        $T0.flatten().reshape([-1, 3])
        paddle.concat([$T0[:1], $T0[1:]])
        (lambda v: v[paddle.argsort(v[:, 0])])($T0)
        $T0.gather(paddle.to_tensor([0, 0]))
        $T0.masked_fill($T0 > $F0, $F0)
        (paddle.rand($T0.shape) + $T0)
        F.dropout($T, 0.5)
        ($T0 if kind_of($I0) else $T)
        {'k': $T0}.get('k', $F0)
        getattr($O, 'value')
        getattr($O, 'nothing', $T0)
        operator.attrgetter('value')($O)
        max([$T0, $T0], key=lambda v: v.shape[0])
        (*$M0, $T0)[0]
        paddle.atan2($T0, $T0 + 2.5)
        F.layer_norm($T, 3)
        paddle.einsum('ij,jk->ik', $T, WEIGHT)
        (WEIGHT.t()[: $T0.shape[0]] if $T0.shape[0] < 4 else $T0)
        $T.add($T0).multiply($T0)
        $T0.${exp|floor|sign|round}().clip(-3, 3)
        paddle.linalg.norm($T0, axis=1, keepdim=True).expand([-1, 3])
        paddle.scale($T, $F0, bias=$F0)
        [$T0, $T0][$I0 % 2]
        paddle.chunk($T, 3, axis=1)[-1].tile([1, 3])
        paddle.flip($T, axis=[1])
        paddle.roll($T, 1, axis=1)
    """,
    "R": """
        $T.sum()
        $T.mean()
        $T.max()
        $T[0, ${0|1|2|-1}]
        paddle.sum($T)
        ($R + $F0)
        ($R * $R0)
        $T0[$T0 > 0].sum()
        paddle.nonzero($T0 > $F0).astype('float32').sum()
        paddle.unique($T0).sum()
        F.mse_loss($T, $T0)
        NET.seen.sum()
        paddle.masked_select($T0, $T0 > 0).mean()
        paddle.to_tensor($F0)
        $N.sum() * paddle.ones([])
        $T.std()
        min($R0, $R0, key=lambda v: float(v))
        paddle.dot($T0[0], $T0[0])
    """,
    "I": """
        len(${NET.parts|NET.row|NET.sublayers()|list(NET.named_parameters())|NET.state_dict()})
        ($I0 ${+|-|*} $I) % 11
        ($I0 ${//|%} ${3|$I0})
        ($I0 ${&||^} $I)
        len($${L|M|D|S|U|Q|P|V})
        $T0.shape[${0|1|-1}]
        len($T0)
        $T0.ndim
        $T0.size
        sum($L)
        max($I0, $I)
        abs($I0)
        int($F)
        $D.get($K, $I0)
        $O.${number|double|counted|kind}
        ($I0 if $B else $I)
        sum(v for v in $L if v > $I0)
        bump()
        bump($I0)
        len($O)
        sum(numbers(${2|3|4}))
        int($R0.item() * 10)
        $P.index($I0)
        divmod($I0, 3)[${0|1}]
        COUNT
        len(LOG)
        TABLE[${"a"|"b"}]
        $W.n
        len($W.tags)
        $V.tag
        int($V)
        $V.auto_${x|yy}
        [5, 6, 7][Vec(0, 1)]
        hash(Pair($I0))  % 5
        Pair($I0, 3).b
        max(Pair(1), Pair($I0)).a
        Mode.${ADD|MUL}.value
        Row(1).right
        Holder($I0).size
        Holder($I0).twice
        cached($I0)
        kind_of($${I|L|S})
        math.${floor|ceil|trunc}($F0)
        sum(Steps($I0 % 4))
        next(iter($L), $I0)
        next((v for v in $L if v > $I0), -1)
        functools.reduce(lambda a, b: a * 2 + b, $L, $I0)
        operator.itemgetter(0)($P)
        Default(a=1)[$K]
        $Q[${0|-1}]
        $Q.count($I0)
        min($U, default=$I0)
        len($U ${&||^|-} $U0)
        collections.Counter($L)[$I0]
        sum(itertools.accumulate($L))
        (lambda *a, **k: len(a) + len(k))(*$L, **$D)
        ($I0 or $I)
        ($I0 and $I)
        int($N.shape[0])
        int($N.argmax())
        int(paddle.argmax($T0))
        $S.count('a')
        ord($S[0])
        int(f'{$I0}')
        $L.count($I0)
        $L.index($I0)
        -$I0
        ~$I0
        ($I0 ** 2) % 7
        ($I0 << 2) % 9
        round($F)
        ${0x7f|10_0|0b11} // 7
        NET.calls
        eval('1 + 1')
        len(vars($O))
        $O.__dict__['number']
        type($O).kind
        $H0.count($A)
        len({$E, $E, $E})
        len($H0)
        getattr($O0, 'late', $I0)
        getattr(NET, 'late', $I0)
        globals().get('LATE', $I0)
        {$E: $I0}.get($E, $I0)
        {$E: 1, $E: 2, $E: 3}.get($E, 0)
        next((k for k, v in enumerate($H) if v is $A0), -1)
        len([v for v in $H0 if v is not $A0])
        kind_of($A0)
    """,
    "F": """
        ($F0 ${+|-|*} $F)
        ($F0 / ${2|4.0|$I0})
        float($I)
        round($F0, 1)
        min($F0, $F0)
        float($R)
        ($F0 ** 2)
        float($V)
        float($N.mean().round(3))
        math.${sqrt|exp|tanh}(abs($F0))
        math.fsum([$F0, $F0])
        float('${1.5|-0.0}')
        ($F0 % 1.5)
        ($F0 // 0.5)
        sum([$F0, $I0])
        abs($F0)
        round(float($R0), 2)
    """,
    "B": """
        (not $B)
        ($I ${<|>|==|!=|<=|>=} $I0)
        ($I0 < $I0 <= $I0)
        ($B ${and|or} $B)
        isinstance($${T|I|L|D|O|F|V|W}, ${int|paddle.Tensor|Box|Small|(list, dict)|typing.Sequence})
        ($I0 ${in|not in} $L)
        ($K in $D)
        ($T0 is ${|not }$T0)
        hasattr($O, '${value|small|extra}')
        $T0.stop_gradient
        bool($L)
        ($F > $F0)
        ($L == $L)
        any(v > $I0 for v in $L)
        all(map(bool, $L))
        ($T0.shape == ${[2, 3]|[4, 3]|(2, 3)})
        ($V == $V0)
        ($V < $V0)
        bool($V)
        ($I0 in $V)
        ($I0 in $U)
        ($U0 <= $U)
        (Pair(1) < Pair($I0))
        (Pair($I0) == Pair(1))
        (Mode.ADD is Mode($I0 % 2 + 1))
        issubclass(type($O), Small)
        callable($${O|V|I})
        ($S ${==|<} $S)
        $S.startswith('a')
        $T0.is_leaf
        ($O is $O0)
        paddle.is_grad_enabled()
        ($P == $P0)
        (type($I0) is int)
        ($D == $D0)
        math.isnan($F0)
        bool($N.any())
        paddle.is_tensor($${T|I})
        ($T0.dtype == paddle.float32)
        isinstance($D, collections.abc.Mapping)
        ($F0 is not None)
        NET.training
        bool($T0.any())
        ($Q == $Q0)
        ($A is $A)
        ($A is $A)
        ($A is not $A)
        ($A == $A)
        ($A != $A0)
        ($A0 in $H)
        ($A not in $H0)
        ($E in {$E: 1, $E: 2})
        (id($O0) == id($O0))
        operator.${is_|is_not|eq}($A, $A)
        (type($A) is type($A))
        any(v is $A0 for v in $H)
        ($L0 is $L0)
        ($O0 is $H0[${0|-1}])
        ($H0[0] is $H0[1])
        ($H0 == $H0)
        (hash($E) == hash($E))
        hasattr($A, '${late|value|__len__|__bool__}')
        ('late' in vars($O0))
        ('LATE' in globals())
        isinstance($A, ${Kindly|Box|Small|collections.abc.Hashable|collections.abc.Sized})
        issubclass(type($A), ${Kindly|Box|type|list})
        callable($A)
        bool($O)
        ($O0.push == $O0.push)
        ($O0.items is $H0)
        (getattr($A, 'late', None) is None)
        ($D0 is TABLE)
    """,
    # A condition on the value of a tensor.
    "C": """
        $R > $F0
        ($T > 0).any()
        ($T0 < 1).all()
        $R < $R0
        $R0 > 0 and $B
        $B or $R0 > 1
        not ($R > 0)
        $R0
        0 < $R0 < 1
        paddle.allclose($T0, $T0)
        ($T0 == $T0).all()
        $R0.item() > 0
        len(paddle.nonzero($T0 > 0)) > 2
        $T0.isnan().any()
    """,
    "S": """
        $S0
        type(${NET.parts[0]|NET.row[1]|NET.linear}).__name__
        [name for name, _ in NET.named_${sublayers|parameters|children|buffers}()][$I0 % 2]
        f'{$I0}-{$S0!r}'
        f'{$F0:.2f}|{$I0:>3}'
        f'{$L0}{$S0!r}{$I0:x}'
        ($S0 + str($I))[:6]
        $S0.${upper|title|strip|lower}()
        '-'.join(str(v) for v in $L)[:8]
        repr($I0)
        str($T0.shape)
        type($${T|I|L|D|O|V|W}).__name__
        '%s %d' % ($S0, $I0)
        '{} {k}'.format($I0, k=$S0)
        $S0.replace('a', 'bb')[:5]
        $S0[::-1]
        $S0 * ($I0 % 3)
        str(Pair($I0))
        repr(Mode.ADD)
        str($T0.dtype)
        ','.join($D)
        $S0.partition('b')[0]
        ('yes' if $B else 'no')
        str($P)[:9]
        chr(97 + $I0 % 3)
        str(sorted($U))
        $S0.join(['a', 'b'])
        $S0.encode().decode()
        'ab'[$I0 % 2]
    """,
    "L": """
        $L0
        $L0
        $L0
        [$I0, $I0]
        $L0[${1:|:2|::-1|-2:|:|::2}]
        sorted($L0)
        sorted($L0, key=lambda v: -v)
        sorted($L0, reverse=$B)
        [v * ${2|$I0} for v in $L0]
        [v for v in $L0 if v ${<|>} $I0]
        list(numbers(${1|2|3}))
        list(range($I0 % 5))
        list(reversed($L0))
        ($L0 + [$I0])
        ($L0 * 2)[:5]
        list(map(lambda v: v + $I0, $L0))
        list(filter(lambda v: v > $I0, $L0))
        [*$L0[:2], *$P][:5]
        sorted({v % 3 for v in $L0})
        [a * b for a, b in zip($L0, $L0)]
        [a + v for a, v in enumerate($L0)]
        [a + b for a in $L0[:2] for b in $L0[:2] if a != b]
        list($U0 or [1])[:1]
        list($Q)
        list(Steps($I0 % 4))
        list($O)[:1]
        list(itertools.islice(itertools.count($I0), 3))
        list(itertools.accumulate($L0))
        list(itertools.chain($L0[:2], Steps(2)))
        [len(list(g)) for _, g in itertools.groupby($L0[:5])]
        [a + (b or 0) for a, b in itertools.zip_longest($L0[:2], [1, 2, 3], fillvalue=0)]
        list($D.values())
        $T0.shape
        copy.copy($L0)
        copy.deepcopy($L0)
        [(lambda: v)() for v in $L0[:3]]
        [f(1) for f in [lambda k, v=v: k + v for v in $L0[:3]]]
        list(chained($L0[:2], [7]))
        sum([[v] for v in $L0[:3]], [])
        list(zip(*[$L0[:2], [8, 9]]))[0:0]
        [int(v) for v in str(abs($I0))]
        $W.tags
        [v for v in $V.value.shape]
        [*$D.values(), *$L0][:4]
        list(map(int, $S0.encode()))[:3]
        list(itertools.takewhile(lambda v: v < 3, $L0))
        [a - b for a, b in itertools.pairwise($L0)]
        list(map(operator.add, $L0, $L0))
        list(itertools.chain.from_iterable([$L0[:2], Steps(2), numbers(2)]))
        [a + b for a, b in itertools.combinations($L0[:4], 2)]
        [a * b for a, b in itertools.product($L0[:2], [1, $I0])]
        [p[0] - p[-1] for p in itertools.permutations($L0[:3], 2)]
        list(itertools.dropwhile(lambda v: v < $I0, $L0))
        list(itertools.filterfalse(lambda v: v % 2, $L0))
        list(itertools.compress($L0, [1, 0, $B, 1]))
        list(itertools.starmap(operator.sub, zip($L0, [1, 2])))
        list(itertools.accumulate($L0[:4], lambda a, b: a - b, initial=$I0))
        list(itertools.islice(itertools.cycle($L0[:2] or [1]), 5))
    """,
    "M": """
        [$T, $T]
        [$T0, $T0]
        [$T * v for v in range(${1|2|3})]
        list(tensors($T0, ${1|2|3}))
        [v + 1 for v in $M0]
        list($M0)
        $M0[:2]
        list(map(paddle.tanh, $M0))
        [v for v in ($T, $T0) if v.ndim == 2]
        ([v for v in $M0 if v.sum() > $F0] or [$T0])
        [a + b for a, b in zip($M0, $M0)]
        list(reversed($M0))
        [f($T0) for f in (paddle.tanh, soft, lambda v: v * 2)]
        [*$M0[:1], $T]
        ($M0 + [$T])[:3]
        [$T0] * ${1|2}
        list(chained(tensors($T0, 2)))
        [p * 1 for p in ($V.value, $W.x)]
        [v if v is not None else $T0 for v in $M0]
        ([$T0 * k for k in $L0[:2]] or [$T0])
        list(itertools.accumulate([$T0, $T], operator.add))
        [a + b for a, b in itertools.product([$T0], $M0[:2])]
        list(itertools.chain([$T], tensors($T0, 2)))
    """,
    "D": """
        $D0
        $D0
        $D0
        {$K: $I0, $K: $I0}
        {**$D0, $K: $I0}
        dict($D0)
        dict($D0, b=$I0)
        {k2: v + 1 for k2, v in $D0.items()}
        dict(zip('abc', $L))
        ($D0 | {$K: $I0})
        dict.fromkeys('ab', $I0)
        Default(a=$I0)
        dict(sorted($D0.items()))
        {k2: v for k2, v in $D0.items() if v > $I0}
        collections.OrderedDict($D0)
        collections.defaultdict(int, $D0)
        copy.copy($D0)
        (lambda **k: k)(**$D0)
        {str(v): v for v in $L0[:3]}
        dict(collections.Counter($S0))
        {'a': 1, **dataclasses.asdict(Pair($I0))}
        Row(1, $I0)._asdict()
    """,
    "O": """
        $O0
        $O0
        $O0
        ${Box|Small}($T0)
        Box($T0, number=$I0)
        ${Box|Small}.make($T0)
        $O0.push($I0)
        ($O0 + $T0)
        copy.copy($O0)
    """,
    "P": """
        ($I0, $I0)
        tuple($L)
        ($I0, $F0, $S0)
        ($I0,) + $P0
        $P0[${1:|:1|::-1}]
        Row($I0, $I0)
        divmod($I0, 3)
        dataclasses.astuple(Pair($I0))
        tuple(sorted($U0))
        tuple(v * 2 for v in $L0)
        tuple($T0.shape)
        next(zip($L0 or [1], 'ab'))
    """,
    "V": """
        $V0
        $V0
        Vec($T0, $I0)
        ($V0 + $T0)
        ($V0 + $V0)
        ($V0 * 2)
        (-$V0)
        ($F0 * $V0)
        sum([$V0, $V0], 0)
        max($V0, $V0)
        sorted([$V0, Vec($T0, 1)])[0]
        ($V0 or Vec($T0, 5))
        copy.copy($V0)
        list({$V0: 1, Vec($T0, $I0): 2})[-1]
    """,
    "W": """
        $W0
        $W0
        Point($T0)
        Point($T0, n=$I0)
        Point($T0, $I0, $L0)
        Point(x=$T0, tags=[$I0])
        $W0.moved($F0)
        dataclasses.replace($W0, n=$I0)
        copy.copy($W0)
    """,
    "N": """
        $T0.numpy()
        $T0.detach().numpy()
        $N0
        ($N0 ${+|*|-} ${2|$F0|$N0})
        np.${tanh|abs|floor|sign}($N0)
        $N0[::-1]
        $N0.T.copy().T
        np.where($N0 > $F0, $N0, 0).astype('float32')
        $N0.astype('float64').astype(np.float32)
        np.stack([$N0, $N0]).mean(0)
        np.arange(6, dtype='float32').reshape(2, 3)
        $N0.clip(-1, 1)
        np.concatenate([$N0, $N0])[: len($N0)]
        $N0.copy()
        np.array([[$F0, 1.0, $I0]], dtype='float32')
        np.cumsum($N0, axis=1)
        ($T0 * 2).numpy()
    """,
    "U": """
        $U0
        set($L)
        {$I0, $I0}
        {v % 3 for v in $L0}
        ($U0 ${&||^|-} {$I0, 1})
        $U0.union($L0)
        frozenset($L0)
        set($D0.values())
        {*$L0[:2], $I0}
        $U0.copy()
    """,
    "Q": """
        $Q0
        collections.deque($L)
        collections.deque($L, maxlen=3)
        collections.deque(reversed($L0))
        $Q0.copy()
    """,
    # Any object, for its identity.
    "A": """
        $O0
        $O0
        $V0
        $H0[${0|1|-1}]
        $H0[$I0 % 2]
        KEEP[${0|-1}]
        MARK
        None
        $L0
        $D0
        $O0.items
        type($O0)
        ${Box|Small|soft|spread|TABLE|LOG|paddle|len}
        $O0.push
        $S0
        $I0
        Mode.ADD
        ($A0 if $B else $A0)
        (lambda v: v)($A)
        dict(k=$A0)['k']
        [$A0, $A0][$I0 % 2]
        max([$O0, $O0], key=len)
        vars($O0).get('late')
    """,
    # One that can be a key.
    "E": """
        $O0
        $O0
        $V0
        MARK
        None
        ${Box|Small|soft|spread|len}
        $I0
        $S0
        $O0.push
    """,
    "H": """
        $H0
        $H0
        $H0
        [$A0, $A0]
        [$A0, *$H0[:2]]
        list($H0)
        $H0[::-1]
        [v for v in $H0 if v is not $A0] + [MARK]
        list({id(v): v for v in $H0}.values())
        copy.copy($H0)
    """,
    # One that is iterated, and notes it.
    "J": """
        NET.named_${children|sublayers}()
        $J0
        $J0
        Noted($I0)
        Ticks($I0 % 4)
        OddList($L0)
        OddDict($D0)
        noting($L0[:4])
        noting($J0)
        map(tell, $J0)
        map(told, $J0, $J0)
        filter(tell, $J0)
        (tell(v) for v in $J0)
        itertools.chain($J0, $J0)
        itertools.islice($J0, ${2|1, 3})
        itertools.takewhile(tell, $J0)
        itertools.dropwhile(tell, $J0)
        itertools.accumulate($J0, told)
        itertools.compress($J0, $J0)
        itertools.starmap(told, zip($J0, $J0))
        itertools.filterfalse(tell, $J0)
        itertools.chain.from_iterable([$J0, $L0[:3]])
        (p for p, in zip($J0))
        iter(Ticks(4).__next__, ${1|3|8})
        reversed(${Noted($I0)|OddList([1, 2])|[$I0, 3]})
        iter($J0)
        [$G0, $G0]
        $H0[:4]
        $L0[:4]
        range($I0 % 4)
    """,
    # One whose special methods note what is asked.
    "G": """
        $G0
        $G0
        Noted($I0)
        Noted($I0, '${eq|hash|bool|len|iter|lt|index|add|get|repr|end}')
        OddInt($I0)
        OddStr($S0)
        OddStr($K)
        OddList($L0)
        OddDict($D0)
        tell($G0)
        ($G0 or $G0)
        ($G0 and $G0)
        ($G0 if $G0 else $I0)
        [$G0, $I0, $G0][$I0 % 3]
        next(iter($J0), $G0)
        max($G0, $G0, key=tell)
        $A0
        $I0
    """,
    "K": """
        "a"
        "b"
        "c"
        "a"
    """,
}

_CHOICE = re.compile(r"\$\{([^{}]*)\}")
_KIND = re.compile(r"\$=([A-Z])([0-9])|\$_([a-z])|\$([A-Z])([0!~]?)")


class Unfit(Exception):
    """A template asks for a variable that there is not."""


def options(text: str) -> list[str]:
    """`a|b` as a list; `||` is the operator."""
    parts = text.replace("||", "|\0|").split("|")
    return (
        list(dict.fromkeys("|" if part == "\0" else part for part in parts))
        if "\0" in text.replace("||", "\0")
        else parts
    )


ROWS = {kind: [line.strip() for line in text.strip().splitlines()] for kind, text in TABLES.items()}


class Expressions:
    """Expression writers; each returns source text."""

    rows = ROWS
    leaves = LEAVES
    statements = STATEMENTS
    random: random.Random
    scope: dict[str, str]
    helpers: list[str]
    in_helper: bool
    locked: set[str]

    def name(self, kind: str) -> str:
        raise NotImplementedError

    def result(self) -> str:
        raise NotImplementedError

    def pick(self, choices):
        return choices[int(self.random.random() * len(choices))]

    def variable(self, kind: str) -> str | None:
        names = [name for name, has in self.scope.items() if has == kind]
        return self.pick(names) if names else None

    def leaf(self, kind: str) -> str:
        chance = self.random.random()
        if kind == "I" and chance < 0.5:
            return str(int(chance * 16) - 2)
        if kind == "F" and chance < 0.5:
            return self.pick(["0.25", "-1.5", "2.0", "0.0", "-0.0", "1e-3"])
        if kind == "S" and chance < 0.4:
            return self.pick(['"ab"', '"k"'])
        if kind == "K":
            return self.pick(self.rows["K"])
        if kind in "CE":
            return self.fill(self.pick(self.rows[kind]), 0)
        if kind == "A":
            return self.variable(self.pick("OOVHLD")) or self.leaves[kind]
        return self.variable(kind) or self.leaves[kind]

    def any(self, kind: str, depth: int = 2) -> str:
        if depth <= 0 or (kind not in "C" and self.random.random() < 0.15):
            return self.leaf(kind)
        if kind in "TI" and self.helpers and not self.in_helper and self.random.random() < 0.1:
            name, has = self.pick(self.helpers).split(":")
            if has == kind:
                return self.fill(f"{name}($T0, $I0, $O0)" + (" % 7" if kind == "I" else ""), depth - 1)
        if kind == "T" and not self.in_helper and self.random.random() < 0.01:
            return f"loud({self.leaf('T')})"
        return self.fill(self.pick(self.rows[kind]), depth - 1)

    def fill(self, template: str, depth: int, made: dict[str, str] | None = None) -> str:
        """The text of a template; new variables are noted in `made`, by their name in the template."""
        made = {} if made is None else made
        while match := _CHOICE.search(template):
            template = template[: match.start()] + self.pick(options(match[1])) + template[match.end() :]

        def text(match: re.Match[str]) -> str:
            new, _, own, kind, mark = match.groups()
            if mark in ("!", "~"):
                if match[0] not in made:
                    made[match[0]] = self.owned(kind)
                return made[match[0]]
            if own or new:
                if match[0] not in made:
                    made[match[0]] = self.name("z") + f"_{own}" if own else self.define(new, made)
                return made[match[0]]
            if kind == "Z":
                return self.result()
            if kind in "XY":
                return self.fill(self.pick(self.statements[kind]), 1, made)
            return self.leaf(kind) if mark == "0" else self.any(kind, depth)

        return _KIND.sub(text, template)

    def owned(self, kind: str) -> str:
        """A variable that may change."""
        names = [name for name, has in self.scope.items() if has == kind and name not in self.locked]
        if not names:
            raise Unfit
        return self.pick(names)

    def define(self, kind: str, made: dict[str, str]) -> str:
        """A variable to assign to: a new one or one that holds a value of the kind already."""
        old = [name for name, has in self.scope.items() if has == kind and name not in self.locked]
        old = [name for name in old if name not in made.values()]
        return self.pick(old) if old and self.random.random() < 0.4 else self.name(kind)
