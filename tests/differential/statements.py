"""Statements as weighted templates, in the language of `expressions`.

A line followed by deeper ones opens a block; its new variables live in there. `<body>` stands for one to three random
statements. A head that begins with `?` is left out half of the time, with its block. `<lock x>` keeps statements of
the block from assigning to x or changing its size. A weight with `!` marks what often raises: mostly under a handler.
"""

from __future__ import annotations

SIMPLE = """
14: $=T1 = $T
4: $=R1 = $R
8: $=I1 = $I
2: $=F1 = $F
2: $=B1 = $B
3: $=S1 = $S
2: $=P1 = $P
4: $=L1 = $L
4: $=M1 = $M
3: $=D1 = $D
2: $=O1 = $O
2: $=V1 = $V
2: $=W1 = $W
2: $=N1 = $N
2: $=U1 = $U
2: $=Q1 = $Q
3: $=T1 = $T0
1: $=L1 = $L0
1: $=D1 = $D0
1: $=M1 = $M0
4: $T~ ${+|-|*}= $T
2: $T~ ${+|-|*}= $F0
4: $I~ ${+|-|&|^}= $I
1: $F~ *= $F0
2: $L~ += [$I0]
1: $L~ *= 2
1: $O~ += $T0
2: $V~ += $T0
1: $U~ |= {$I0}
1: $S~ += $S0
1: $P~ += ($I0,)
1: $D~ |= {$K: $I0}
2: $L!.append($I)
1: $L!.extend($L)
1: $L!.insert(${0|1|-1|9}, $I0)
1: $L!.reverse()
2!: $L![${0|-1|1}] = $I
1!: $L![${:1|1:|1:2|::2}] = $L
1: $L![0:1] = []
1: $L!.sort()
1: $L!.sort(key=lambda v: -v)
1!: $L![-1] += $I0
1!: $L!.pop()
1!: $L!.pop(0)
1!: $L!.remove($I0)
1!: del $L![0]
1!: del $L![${:1|::2}]
1: $L!.clear()
1: $=L1 = Sorted($L0)
1!: $M!.append($T)
1!: $M![${0|-1}] = $T
1!: $M![0] += $T0
1!: $M!.insert(0, $T0)
1!: $M!.pop()
1!: $M!.reverse()
3: $D![$K] = $I
1: $D!.update(${a|b}=$I0)
1: $D!.setdefault($K, $I0)
1: $D!.pop($K, None)
1!: $D!.pop($K)
1: $D![$K] = $D!.get($K, 0) + $I0
1!: $D!.popitem()
1!: $D![$K] += $I0
1!: del $D![$K]
1: $D!.update({$K: $I0}, c=$I0)
1: $U!.add($I0)
1: $U!.discard($I0)
1!: $U!.update($L0)
1!: $U!.remove($I0)
1!: $U! -= {$I0}
1: $Q!.append($I0)
1: $Q!.appendleft($I0)
1!: $Q!.popleft()
1: $Q!.rotate($I0)
1: $Q!.extend($L0)
1: $Q!.extendleft([$I0, $I0])
2: $O0.value = $T
1: $O0.number += $I0
1: $O0.push($I0)
1: $O0.items.append($${I|T}0)
1: $O0.extra = $${T|I|L}
1: setattr($O0, 'number', $I0)
1: $O0.counted
1: $O0.double = $I0
1: $O0.kind = $I0
1: $O0.items = $L
1!: del $O!.number; $O!.number = $I0
1!: del $O!.items[0]
1: vars($O!)['number'] = $I0
1: $O!.__dict__.update(number=$I0)
2: $V0.tag = $I0
1: $V0.extra = $T0
1: $V0[$I0] = $I0
1!: del $V0[$I0]
1!: del $V0.extra
1: $V0.value = $V0.value * $F0
2: $W0.n += $I0
1: $W0.tags.append($I0)
1: $W0.x = $T
1: $W0.x, $W0.n = $T0, $I0
1: $=T1, $=I1 = dataclasses.astuple(Row and Thin($T0, $I0))
1: LOG.append(repr(Pair($I0)))
1!: object.__setattr__(Pair(1), 'a', $I0)
1!: Pair($I0).a = 3
2!: $N![0] = $F0
1: $N! += 1
1!: np.add($N!, $F0, out=$N!)
1!: $N![:, 1] *= 2
1: $N!.fill($F0)
1!: $N![$N! > 0] = 0
3: $=H1 = $H
1: $H!.append($A)
1!: $H!.remove($A)
1!: $H![0] = $A
1!: $H!.pop()
1: KEEP[:] = [$A0, $A0]
1: $O0.late = $A0
1!: del $O0.late
1: $=O1 = $O0 if $B else $O0
1: $_k = {$E: 'first'}; LOG.append($_k.get($E)); LOG.append(len($_k))
1: LOG.append([$A0 is v for v in $H0[:4]])
1!: LOG.append($H0.index($A))
1: globals()['LATE'] = $I0
1: globals().pop('LATE', None)
2: LOG.append($${T|R|I|S|D|L|P|B|B})
2: bump($I0)
1: TABLE[$K] = $I0
1: TABLE.update($D0)
1: Box.kind = $I0
1: Vec.made = $I0
1: LOG.append(COUNT)
1: globals()['COUNT'] = $I0
1: globals().update(COUNT=$I0)
1: LOG.insert(0, $S)
1: LOG.append(len(LOG))
1: LOG.append(sorted(k for k in locals() if len(k) == 1))
1: loud.mark = $I0
1: LOG.append(getattr(loud, 'mark', None))
1: memo.__defaults__ = ([1],)
1: NET.calls = $I0
1: NET.${train|eval}()
1: NET.parts.append(paddle.nn.${Tanh|ReLU6|Softsign}())
1!: NET.parts.insert(0, paddle.nn.Tanh())
1!: NET.parts[${0|-1|1}] = paddle.nn.Softsign()
1!: del NET.parts[${0|-1}]
1: NET.parts.extend([NET.linear])
1: NET.row.add_sublayer('${first|soft|third}', paddle.nn.Tanh())
1: NET.extra = ${paddle.nn.Tanh()|None|$I0|$T0}
1!: del NET.extra
1!: NET.linear = ${NET.row[0]|paddle.nn.Tanh()}
1: NET.register_buffer('${added|seen}', $T0.detach())
1: NET.apply(lambda layer: LOG.append(type(layer).__name__))
1: LOG.append([type(layer).__name__ for layer in NET.sublayers(include_self=$B0)])
1: LOG.append([name for name, _ in NET.named_parameters()])
1: $=T1 = sum((p * $F0).sum() for p in NET.parameters()) * $T0
1: NET.row.register_forward_post_hook(lambda layer, given, result: result * 0.5)
1: $_k = NET.linear.register_forward_pre_hook(lambda layer, given: (given[0] + 1,)); $=T1 = NET.linear($T); $_k.remove()
1: NET.linear.weight.stop_gradient = $B0
1!: NET.seen.set_value(paddle.to_tensor([$F0]))
1: print($T)
1: print($I0, $R)
1: print($${I|S|L|D|F|B|P|V|Q}0)
1: print($V0, f'{$V0:>}', end='|')
2: LOG.append($T.numpy().shape)
2: LOG.append($R.item())
2: LOG.append($T0.tolist()[0])
1: print('{} {}'.format($I0, $S0))
1: np.random.seed($I0); LOG.append(np.random.rand())
1: paddle.seed($I0); $=T1 = paddle.rand([2, 3]) + $T0
1: $=T1 = $T * 1.0; $=T1.${add_|subtract_|multiply_}($T0)
1: $=T1 = $T * 1.0; $=T1[0] = $F0
1: $=T1 = $T * 1.0; $=T1[:, 1] = $R0
1: $=T1 = $T * 1.0; $=T1[$=T1 > 0] = $F0
1: $=T1 = $T * 1.0; $=T1.${zero_|tanh_|exp_|relu_|sigmoid_}()
1: $=T1 = $T * 1.0; $=T1.scale_($F0)
1: $=T1 = $T * 1.0; $=T1[0].add_($=T1[1])
1: $=T1 = $T * 1.0; $=T2 = $=T1.reshape([-1, 3]); $=T2.add_($T0)
1: $=T1 = $T * 1.0; $_v = $=T1[:1]; $_v.scale_($F0)
1: $=T1 = $T * 1.0; $_v = $=T1.flatten(); $=T1.add_($T0); LOG.append($_v)
1: $=T1 = $T * 1.0; $_v = $=T1.detach(); $_v.zero_()
1: $=T1 = $T * 1.0; $_v = $=T1.t(); $_v[0] = $F0
1: $=T1 = $T * 1.0; $_a, $_b, $_c = paddle.split($=T1, 3, axis=1); $_a.add_($_b)
1: $=T1 = $T * 1.0; $_v = $=T1.unsqueeze(0); $_v.fill_($F0)
1: $=T1 = paddle.assign($T0); $=T1.clip_(-1, $F0)
1!: $=T1 = $T0.clone(); $=T1.set_value($N0)
1: $=T1 = paddle.zeros_like($T0); paddle.assign($T0, $=T1)
1: $=T1 = $T.detach(); $=T1.stop_gradient = False; $=R1 = ($=T1 * $T0).sum()
1!: $T0.add_($T0)
1!: $O0.value.scale_(0.5)
1: $_s = paddle.to_tensor($N0); $_s[0, 0] = 9; $=T1 = $_s + $F0
1!: $=I1, *$=L1 = $L
1: $=I1, $=I2 = $I, $I; $=I1, $=I2 = $=I2, $=I1
1: ($=T1, $=T2), $=I1 = [$T, $T0], $I0
1!: $=T1, *$_m = $M
1!: *$_a, $=T1 = $M
1: $=I1 = $=I2 = $I
1: $=L1 = $=L2 = [$I0]; $=L1.append($I0)
1: $=T1, $=T2 = ($T, $T0) if $B else ($T0, $T)
1: $_p = $T, $I; $=T1, $=I1 = $_p
1!: $=I1, $=I2 = $P[:2]
1: $=T1 = $T0; $=T1 += 1
1!: assert $B or True, $S
1!: assert $I0 < 9, $S
1: $_x, $_y = counter($I0); $_x(); $=I1 = $_x($I0) + $_y()
1: $_g = tensors($T0, 3); next($_g); $=M1 = list($_g)
1: $_g = echo($T0); next($_g); $=T1 = $_g.send($I0); $_g.close()
1!: $_g = (v * $I0 for v in $M0); $=T1 = next($_g)
1: $_i = iter($L0); $=I1 = next($_i, 0); $=L1 = list($_i)
1!: $_e = enumerate($M0, $I0); $=I1, $=T1 = next($_e)
1!: $_z = zip($L0, $M0); $=I1, $=T1 = next($_z)
1!: $_c = itertools.chain($L0, [$I0]); $=I1 = next($_c); bump($I0); $=L1 = list($_c)
1!: $_i = itertools.islice(iter($L0), 1, None); $=I1 = next($_i); LOG.append(list($_i))
1!: $_m = map(lambda v: bump(v), $L0); next($_m); LOG.append(COUNT)
1: $_r = Row($T0, right=$I); $=T1 = $_r.left; $=I1 = $_r.right; LOG.append($_r._fields)
1: $_h = Holder($I0); $=I1 = $_h.size + $_h.twice + $_h.twice
1!: $_h = Holder($I0); $_h.size = $I0; del $_h.size
1: $_s = Slotted($T0, $I0); $_s.number += 1; $=T1 = $_s.value * $_s.number
1!: $_s = Slotted($T0, $I0); $_s.other = 1
1: $_f = functools.partial(spread, $T0, scale=$F0); $=T1 = $_f($I0); $=T2 = $_f(k=$I0)
1: $_c = collections.Counter($L0); $_c.update($L0); $=I1 = sum($_c.values())
1: $_t = Default(); $=I1 = $_t['x'] + $_t['y'] + $_t['x']; $=D1 = $_t
1: $_d = collections.defaultdict(list); $_d['k'].append($T0); $_d['k'].append($T); $=M1 = $_d['k']
1: $_d = collections.OrderedDict(a=$I0, b=$I0); $_d.move_to_end('a'); $=D1 = $_d
1: $_n = type($O0).__new__(type($O0)); $_n.value = $T0; $_n.number = 1; $_n.items = []; $=O1 = $_n
1!: $=T1 = fails_late($T0, LOG)
1!: $=I1 = risky($I0)
1: import math as $_q; $=I1 = $_q.floor($F0)
1: from collections import deque as $_q; $=Q1 = $_q([$I0])
1!: del $T~
1!: $_s = $R; $_s.backward()
1!: $_d = $T0.detach(); $_d.stop_gradient = False; ($_d * $_d).sum().backward(); $=T1 = $_d.grad.detach()
1!: $_d = $T0.detach(); $_d.stop_gradient = False; $=T1 = paddle.grad(($_d * $T0).sum(), $_d)[0]
1: $=T1 = $T; $=T1.stop_gradient = True
1: $=T1 = $T0; LOG.append($=T1.grad is None)
4: $=J1 = $J
4: $=G1 = $G
3!: LOG.append(${list|tuple|sorted|sum|any|all|min|max|bool|len|enumerate}($J) is None)
2!: $_l = list($J); LOG.append($_l[:5]); $=H1 = $_l
2!: $=L1 = ${list|sorted}($J)
2!: LOG.append([*$J, *$J0])
2!: LOG.append(${sum|max|min|any|all|math.prod|len|tuple|repr|next|set}($J))
2!: LOG.append(${max|min|sorted}($J, key=tell))
1!: LOG.append(${max|min}($J, default=$I0))
1!: LOG.append(list(zip($J, $J0${|, strict=True})))
1!: LOG.append(list(enumerate($J, $G0)))
1!: LOG.append(${dict|list}(zip($J, $J0)))
1!: LOG.append(dict.fromkeys($J, $I0))
1!: LOG.append('-'.join(map(str, $J)))
1!: LOG.append($G0 ${in|not in} $J)
1!: $_a, *$_b = $J; LOG.append([$_a, $_b])
1!: $_a, $_b = $J; LOG.append($_a)
1!: ($_a, $_b), $=I1 = $J0, $I0
2!: $L!.extend($J)
1!: $L! += $J
1!: $L![${1:1|:1|::2|:}] = $J
1!: $U!.${update|difference_update|intersection_update|symmetric_difference_update}($J)
1!: LOG.append($U0.${union|isdisjoint|issubset|issuperset|difference}($J))
1!: $Q!.${extend|extendleft}($J)
1!: $D!.update(${Keys($I0)|OddDict($D0)|zip('ab', $J0)})
1!: $D! |= ${zip('ab', $J0)|OddDict($D0)}
1!: LOG.append((lambda *a, **k: (len(a), k))(*$J, **${Keys($I0)|OddDict($D0)|$D0}))
1!: LOG.append({**${Keys($I0)|OddDict($D0)}, $K: 1})
1!: LOG.append(functools.reduce(told, $J${|, $G0}))
1!: LOG.append(collections.Counter($J).most_common(1))
1!: LOG.append(list(collections.deque($J, 2)))
1!: LOG.append([(k, len(list(g))) for k, g in itertools.groupby($J, ${tell|None})])
1!: LOG.append(list(itertools.product($J, $J0))[:5])
1!: LOG.append([tell(a) for a in $J for b in $J0 if tell(b)][:6])
1!: LOG.append({tell(a): tell(b) for a, b in zip($J, $J0)})
1!: LOG.append([*itertools.zip_longest($J, $J0, fillvalue=$I0)][:5])
1!: $_t, $_u = itertools.tee($J); LOG.append(next($_t, 0)); LOG.append(list($_u)[:4])
1!: $_i = iter($J); LOG.append(next($_i, 9)); $=J1 = $_i
1!: LOG.append(list(map(tell, $J, $J0)))
1!: LOG.append(bytes($J)[:4])
1!: LOG.append(next($J, $G0))
1!: del $J0[${0|:1}]
1!: $T~ = $T~ + sum($J)
1!: $T~ = sum(Stream($T0, ${1|2|3}), $T0)
1!: $=M1 = ${list|sorted}(Stream($T0))
1!: $=M1 = list(map(tell, Stream($T0)))
1!: $=M1 = [a + b for a, b in zip(Stream($T0), noting($M0))]
1!: $_a, $=T1 = Stream($T0)
1!: $=T1 = functools.reduce(operator.add, Stream($T0), $T0)
1!: $=T1 = max(Stream($T0), key=lambda v: float(v.sum()))
1!: $=T1 = paddle.stack(list(Stream($T0))).sum(0)
1!: $T~ = $T~ * ${int|float|len|bool|abs|round}($G)
1!: $=T1 = $T0[$G0 : ]
1!: $=T1 = $T + ($G ${+|-|*} $I0)
1!: LOG.append($G ${==|!=|<|>|<=|>=} $G0)
1!: LOG.append($G0 < $G0 ${<|==|>=} $G)
1!: LOG.append([$G0, $G0, $I0].${index|count}($G))
1!: $_l = [$G0, $I0, $G0]; $_l.remove($G0); LOG.append(len($_l))
1!: LOG.append(($G0, $I0) ${==|<|>|!=} ($G0, $I))
1!: LOG.append([$G0, $I0] ${==|<|>=} [$G0, $I])
1!: LOG.append($G0 ${in|not in} ${[$G0, $G0]|($I0, $G0)})
1!: LOG.append($G0 ${in|not in} {$G0: 1, $I0: 2})
1!: LOG.append($G0 ${in|not in} {$G0, $I0})
1!: LOG.append(sorted([$G0, $G0, $G0]${|, reverse=True|, key=tell}))
1!: LOG.append(${max|min}($G0, $G0${|, key=tell}))
1!: LOG.append(sum([$G0, $G0]${|, $I0}))
1!: $_d = {$G0: 1, $G0: 2}; $_d[$G0] = 3; LOG.append($_d.${get|pop|setdefault}($G0, 4)); LOG.append(len($_d))
1!: LOG.append(len({$G0, $G0, $I0} ${&||^|-} {$G0}))
1!: LOG.append($G0 ${+|*|@|-|//|%|**|&} $G0)
1!: LOG.append($I0 ${+|*|-|//|&|<<} $G0)
1!: $G~ ${+|*|-}= $${I|G}0
1!: LOG.append(f'{$G0}{$G0!r}{$G0!s:>4}{$G0:x}')
1!: LOG.append('%s %r %d' % ($G0, $G0, $G0))
1!: LOG.append('{} {!r}'.format($G0, $G0))
1!: LOG.append(${str|repr|int|float|bool|len|abs|round|list|tuple|iter|callable|operator.index|operator.not_|operator.truth}($G))
1!: LOG.append(${divmod|pow|operator.add|operator.eq|operator.contains|operator.getitem|isinstance|hasattr|getattr}($G0, $${I|G|K}0))
1!: LOG.append([5, 6, 7][$G0])
1!: LOG.append([5, 6, 7][$G0:$G0])
1!: LOG.append(list(range($G0)))
1!: LOG.append('ab' * $G0)
1!: LOG.append($G0[$${G|I|K}0])
1!: $G0[$${I|G|K}0] = $I0
1!: LOG.append($G0[${1:2|:|::2|0, 1}])
1!: LOG.append($G0(${|$I0|$I0, k=1|*$L0}))
1!: LOG.append(-$G0)
1!: LOG.append(not $G0)
1!: LOG.append($G0.${missing|number|__len__|__class__.__name__})
1!: LOG.append(getattr($G0, '${missing|number|keys}', $I0))
1!: print($G0, $G0${|, sep='/'})
1!: LOG.append(list(filter($G0, $L0)))
1!: LOG.append($T0.shape == $G0)
1!: LOG.append(math.${floor|sqrt|gcd}($G0))
1!: LOG.append($S0.${startswith|count|find|join|split}($G0))
1!: LOG.append(OddDict($D0)[$K])
1!: LOG.append(OddDict($D0).${get|pop|setdefault}($K, 1))
1!: LOG.append(dict(${Keys($I0)|OddDict($D0)|OddDict($D0).items()}))
1!: LOG.append(list(${OddDict($D0)|OddDict($D0).keys()|OddDict($D0).items()}))
2!: $H!.append(${[$G0, $G0]|($G0, $I0)|dict.fromkeys([$G0, $G0], $I0)|set([$G0, $I0])|frozenset([$G0])|collections.deque([$G0])})
1!: $H!.append({$G0: $G0, $I0: $I0})
1!: $H!.append(collections.${Counter|deque|OrderedDict.fromkeys}([$G0, $G0]))
1!: $_d = collections.defaultdict(list); $_d[$G0].append($I0); $H!.append($_d)
1!: $_d = collections.OrderedDict([($G0, 1)]); $_d.move_to_end($G0); $H!.append($_d)
1!: $H!.append(collections.ChainMap(${OddDict($D0)}, $D0)[$K])
1!: LOG.append(Point($G0) == Point($G0))
1!: LOG.append(Pair($G0, $G0) ${<|==|>=|!=} Pair($G0, $G0))
1!: LOG.append(hash(Pair($G0)) * 0)
1!: LOG.append(repr(${Pair($G0)|Point($G0)|Row($G0)|[$G0, $I0]|($G0,)}))
1!: LOG.append(Row($G0, $I0) == ($G0, $I0))
1!: LOG.append(dataclasses.${astuple|asdict}(Pair($G0)))
1!: $H!.append(copy.${copy|deepcopy}($G0))
1!: $H!.append(copy.${copy|deepcopy}([$G0, $I0]))
1!: LOG.append(cached($G0))
1!: LOG.append(kind_of($G0))
1!: LOG.append(functools.partial(tell, $G0)())
1!: LOG.append(operator.${attrgetter('number')|itemgetter(1)|itemgetter(1, 2)|methodcaller('note', 'x')|methodcaller('missing')}($G0))
1!: LOG.append(operator.${concat|iadd|lt|indexOf|countOf|length_hint|mul|xor}($${G|J}0, $G0))
1!: LOG.append(isinstance($G0, ${collections.abc.Iterable|collections.abc.Hashable|collections.abc.Sized|collections.abc.Callable|Kindly|(int, str)|typing.Sized}))
1!: LOG.append('%(a)s' % ${OddDict(a=1)|Keys(3)})
1!: LOG.append('{a}{a!r}'.format(**${OddDict(a=1)|Keys(3)}))
1!: LOG.append('{a}'.format_map(${OddDict(a=1)|OddDict()|Keys(3)}))
1!: LOG.append('{0.number}{0.missing}{0[1]}'.format($G0))
1!: LOG.append(f'{$G0:>{$I0}}{$G0!a}')
1!: LOG.append(slice($G0, $G0).indices(5))
1!: LOG.append(list(range($G0, ${5|$G0}))[:5])
1!: LOG.append('a,b'.split(${OddStr(',')|$G0}))
1!: LOG.append(${OddStr('a,b')|$G0}.${split(',')|upper()|join('ab')|count('a')})
1!: LOG.append(sorted([3, 1, 2], key=$G0))
1!: LOG.append(list(map($G0, [3, 1])))
1!: LOG.append([*map($G0.note, 'ab')])
1!: LOG.append(list(zip(*[$J, $J0])))
1!: LOG.append([*zip(*[iter($J)] * 2)])
1!: import heapq as $_q; $_l = [$G0, $G0, $I0]; $_q.heapify($_l); LOG.append($_q.heappop($_l))
1!: import bisect as $_q; LOG.append($_q.bisect([1, 2, 3], $G0))
1!: $L!.insert($G0, $I0)
1!: $L!.pop($G0)
1!: $L![$G0] = $I0
1!: LOG.append($L0[$G0 : $G0])
1!: $L!.sort(key=$G0)
1!: $L!.sort(key=told, reverse=$G0)
1!: LOG.append($L0 ${+|*|==|<} $G0)
1!: $L! ${+|*}= $G0
1!: $D![$G0] = $I0
1!: LOG.append($D0.get($G0, $I0))
1!: LOG.append($G0 in $D0)
1!: LOG.append($D0 ${==|!=} $G0)
1!: $U!.${add|discard|remove}($G0)
1!: LOG.append($U0 ${==|<=|&|-} $G0)
1!: $O0.late = $G0
1!: $O0.value = $T0 * (1 if $G0 else 2)
1!: $V0[$G0] = $G0
1!: bump($G0)
1!: LOG.append(spread($T0, $G0).shape)
1!: LOG.append(round($G0, $I0))
1!: LOG.append($G0 if not $G0 else -1)
1!: LOG.append([$G0 and 1, $G0 or 2, not $G0])
1!: LOG.append(all([$G0, $G0]) or any([$G0]))
1!: LOG.append($G0 is $G0 or $G0 == $G0)
1!: LOG.append(type($G0)($I0))
1!: LOG.append(str($G0) + repr($G0) + f'{$G0}')
1!: LOG.append(int($G0) + float($G0))
1!: LOG.append(paddle.to_tensor([$I0, $I0])[$G0].item())
1!: $=T1 = $T0.reshape([-1, $G0])
1!: $=T1 = $T0.sum($G0)
1!: $=T1 = $T0 if $G0 > $I0 else $T0 * 2
1!: assert $G0, $G0
1!: raise KeyError($G0)
1!: del $G0.${number|missing}
1!: $G0.number = $I0
1!: vars($G0)['number'] = $I0
1!: LOG.append(sorted(vars($G0)))
1!: LOG.append(type($G0).__name__ + $G0.__class__.__qualname__)
"""

COMPOUND = """
5: if $B:
    <body>
?elif $B:
    <body>
?else:
    <body>

6: if $C:
    <body>
?elif $${B|C}:
    <body>
?else:
    <body>

2: if $C:
    $=T1 = $T
else:
    $=T1 = $T

2: if $${B|C}: bump($I0)
$=I1 = $I

2: if ($=I1 := $I) > 1:
    <body>

2: for $=I1 in range(${2|3|1, 4|3, 0, -1|$I0 % 4}):
    <body>
    ?if $${B|C}: ${break|continue}
?else:
    <body>

2: for $=I1 in $L0[:4]:
    <body>

1: <lock $L!>
for $=I1 in $L!:
    if len($L!) > 20: break
    <body>

2: for $=I1, $=I2 in enumerate($L[:4]):
    <body>

2: for $=I1, $=T1 in zip($L[:3], $M[:3]):
    <body>

1: for $=I1, $=I2 in itertools.product($L[:2], $L[:2]):
    <body>

1: for $=I1, $=T1 in zip(itertools.count($I0), $M[:3]):
    <body>

1: for $=I1 in itertools.chain($L[:2], itertools.islice($L, 2, 4)):
    <body>

2: for $=S1, $=I1 in list($D.items()):
    <body>

1: <lock $D!>
for $=S1, $=I1 in $D!.items():
    <body>

2: for $=T1 in tensors($T0, 3):
    <body>

1: for $=T1 in $M[:3]:
    <body>

2: for $=R1 in $T0[0]:
    <body>

2: for $=R1 in $T0:
    $=T1 = $=R1 + $T0
    <body>

1: for $_v in $H0[:4]:
    if $_v is $A0:
        <body>
    ?elif $_v == $A0:
        bump($I0)

1: if $A is $A0:
    <body>
?else:
    <body>

1: match $A:
    case None:
        <body>
    case Kindly():
        <body>
    case Box(late=$_l):
        LOG.append(callable($_l))
    case _:
        <body>

1: for $=I1 in numbers($I0 % 4):
    <body>

1: for $=I1 in Steps($I0 % 4):
    <body>

1: for $=I1 in filter(None, $L[:4]):
    <body>

1: for $=I1 in reversed($L0[:3]):
    <body>

1: for $=I1, $=I2 in itertools.product($L0[:2], [1, 2]):
    <body>

1: for $=I1 in sorted($U)[:3]:
    <body>

1: for $=I1 in range($T0.shape[0]):
    $=T1 = $T0[$=I1] + $T0
    <body>

1: for $O0.number in range(${2|3}):
    <body>

2: $_w = 0
while $_w < ${1|2|3}:
    $_w += 1
    <body>

2: $_w = 0
while $_w < 3 and $C:
    $_w += 1
    <body>
?else:
    bump($I0)

1: $_w = 0
while True:
    $_w += 1
    if $_w > ${1|2|3}:
        break
    <body>

1: $_t = $T0
for $_i in range(3):
    $_t = $_t * 0.5
    if $_t.sum() > $F0:
        continue
    <body>
    $_t = $_t + 1
$=T1 = $_t

1: with paddle.no_grad():
    <body>

1: with paddle.enable_grad():
    <body>

1: with paddle.set_grad_enabled($B):
    <body>

2: with Guarded(LOG):
    <body>

2: with Guarded(LOG, swallow=True):
    <body>
    bump(risky($I0))

1: with Guarded(LOG) as $_g:
    <body>
    $_g.append($I0)

2: with managed(LOG, $I0) as $=I1:
    <body>

1: with contextlib.suppress(ValueError, KeyError):
    <body>
    bump(risky($I0))

2: with catching(LOG, ValueError, LookupError):
    <body>
    $=T1 = fails_late($T, LOG)
    bump($D[$K])

1: with contextlib.nullcontext($T) as $=T1:
    <body>

1: with Guarded(LOG), managed(LOG, 1) as $=I1:
    <body>

1: with $V0 as $=V1:
    <body>
    ?if $B: raise KeyError('vec')

1: with contextlib.ExitStack() as $_s:
    $_s.callback(bump, $I0)
    $=I1 = $_s.enter_context(managed(LOG, $I0))
    <body>

1: with contextlib.closing(echo($T0)) as $_s:
    $=T1 = next($_s)
    <body>

5: try:
    <body>
    ?$X
except ${ValueError|(KeyError, IndexError)|Exception|ZeroDivisionError|LookupError} as $_e:
    ${LOG.append(str($_e))|LOG.append(type($_e).__name__)|print($_e)}
    <body>
    ?$Y
?else:
    <body>
?finally:
    LOG.append('finally')
    <body>

2: try:
    <body>
    ?$X
finally:
    ${LOG.append('finally')|bump($I0)}
    <body>

1: try:
    try:
        <body>
        $X
    finally:
        LOG.append('inner')
        <body>
except Exception as $_e:
    LOG.append(repr($_e.__context__))
    <body>

1: try:
    raise ExceptionGroup('group', [ValueError($I0), ${KeyError|TypeError}($S0)])
except* ValueError as $_e:
    LOG.append(len($_e.exceptions))
    <body>
except* KeyError:
    <body>

1: for $_i in range(3):
    try:
        if $${B|C}: ${continue|break}
        <body>
    finally:
        bump($_i)

1: try:
    $=T1 = $T
    $X
except Exception:
    $=T1 = $T
else:
    bump()

1: def $_f($=T1):
    try:
        $=T2 = $=T1 * $I0
        return $=T2
    finally:
        LOG.append('left')
$=T3 = $_f($T)

1: def $_f($=T1):
    with Guarded(LOG, swallow=True):
        if $C: raise ValueError('inside')
        return $=T1 + 1
    return $=T1 - 1
$=T3 = $_f($T)

3: $=I1 = $I0
def $_f($=T1, gain=1):
    nonlocal $=I1
    $=I1 += gain
    <body>
    return $=T1 * $=I1
$=T2 = $_f($T0)
$=T3 = $_f($T0, gain=$I0)

2: $=I1 = $I0
def $_f($=T1, *a, gain=1):
    <body>
    return $T * $=I1 + gain + len(a)
$=T2 = $_f($T0, 3)
$=I1 = $I
$=T3 = $_f($T0, gain=$I0)

1: def $_f($=I1):
    def $_g(by):
        nonlocal $=I1
        $=I1 += by
        return $=I1
    return $_g
$_h = $_f($I0)
$_h(2)
$=I2 = $_h($I0)

1: $=L1 = []
def $_f($=T1):
    $=L1.append($I)
    <body>
    return $=T1 + len($=L1)
$=M1 = [$_f(v) for v in $M]

1: def $_f($=I1):
    return $T if $=I1 <= 0 else $_f($=I1 - 1) * 0.5 + $=I1
$=T2 = $_f(${1|2|$I0 % 4})

1: @doubled
def $_f($=T1):
    <body>
    return $=T1 - $F0
$=T2 = $_f($T)

1: $_k = []
for $=I1 in range(3):
    $_k.append(lambda v: v * $=I1)
$=T1 = $_k[0]($T0) + $_k[-1]($T0)

1: class $_c(Box):
    kind = $I0
    def scaled(self, by=$I0):
        return self.value * by
$=O1 = $_c($T0)
$=T1 = $=O1.scaled()

1: class $_c:
    def __getattr__(self, name):
        LOG.append(name)
        return len(name)
    def __matmul__(self, other):
        return other * 2
$=I1 = $_c().abc
$=T1 = $_c() @ 3 + $T0

1: match $${I|L|D|P|O|W|V}:
    case 1 | 2:
        <body>
    case [$=I1, *_]:
        <body>
    case {"a": int($=I2)}:
        <body>
    case Small():
        <body>
    case Box(number=$_n) if $_n:
        <body>
    case Point(n=$_n):
        <body>
    case _:
        <body>

1: def $_g($=I1):
    for $=I2 in range($=I1):
        <body>
        yield $T * $=I2
$=M1 = list($_g(${1|2|3}))

1: def $_g($=T1):
    try:
        yield $=T1
        <body>
        yield $=T1 * 2
    finally:
        LOG.append('generator')
for $=T2 in $_g($T0):
    bump()
    ?break

1: def $_g():
    $_r = yield from tensors($T0, 2)
    LOG.append($_r)
    yield $T
$=M1 = [*$_g()]

1: def $_g():
    $_r = 0
    while $_r is not None:
        $_r = yield $T * $_r
        bump()
$_h = $_g()
next($_h)
$=T1 = $_h.send($I0)

1: for $=G1 in NET.${parts|row|row[:1]|sublayers()|children()}:
    $=T2 = $=G1($T)
    <body>

1: for $=I1, $_p in enumerate(NET.parts):
    <body>
    $=T2 = $_p($T)
    ?if $C: break

2: for $=G1 in $J:
    <body>
    ?if $${B|C}: ${break|continue}

1: for $=I1, $=G1 in ${enumerate($J)|zip($J, $J0)}:
    tell($=I1)
    <body>

1: for $=T1 in Stream($T0, ${1|2|3}):
    <body>
?else:
    bump()

1: for $=T1, $=G1 in zip(Stream($T0, 3), $J):
    <body>

1: if $G:
    <body>
?elif not $G0:
    <body>
?else:
    bump()

1: $_w = 0
while $_w < 3 and $G~:
    $_w += 1
    $G~ += 1
    <body>

1: for $=I1 in range(3):
    if $G0 ${==|>|in} ${$I0|[1, 2]}: ${break|continue}
    <body>

1: class $_c(Noted):
    def note(self, *what):
        <body>
        return super().note(*what)
$=G1 = $_c($I0)

1: with Noted($I0) as $=G1:
    <body>
    ?if $B: bump($I0 // 0)

1: match $G:
    case Noted(number=2):
        <body>
    case [$_a, *_]:
        LOG.append($_a)
    case {"a": $_a}:
        LOG.append($_a)
    case 2 | "a":
        <body>
    case _:
        <body>

1: def $_g():
    $_r = yield from $J
    LOG.append($_r)
    <body>
    yield $I0
for $=G1 in $_g():
    tell($=G1)
"""

# Statements that may raise, and those that end an exception handler.
RAISES = """
bump(risky($I0))
bump($D[$K])
bump($L[$I0])
raise KeyError($I0)
raise ValueError($S0, $I0)
bump($I0 // $I0)
bump(Noted($I0, 'len').__len__())
list(Noted($I0, 'end'))
$O.missing
if $C: raise ValueError('tensor')
$=T1 = fails_late($T, LOG)
$=T1 = $T + paddle.ones([7, 7])
print($T); raise IndexError($S0)
next(iter([]))
assert $B, $S
Holder(10 + $I0)
int($S0)
""".strip().splitlines()

AGAIN = """
raise
raise RuntimeError('again') from $_e
raise TypeError('other')
LOG.append(repr($_e.args))
""".strip().splitlines()

STATEMENTS = {"X": RAISES, "Y": AGAIN}


def rows_of(text: str, separator: str) -> tuple[list[str], list[int]]:
    parts = [part.partition(": ") for part in text.strip().split(separator) if part.strip()]
    rows = ["!" * weight.endswith("!") + text for weight, _, text in parts]
    return rows, [int(weight.rstrip("!")) for weight, _, _ in parts]


SIMPLE_ROWS = rows_of(SIMPLE, "\n")
COMPOUND_ROWS = rows_of(COMPOUND, "\n\n")
