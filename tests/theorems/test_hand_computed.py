"""Every bound against numbers worked out by hand from the formulas of the papers."""

from __future__ import annotations

import pytest

from rote.config import Architecture, Convention, Dtype
from rote.theorems import Setting, get
from rote.theorems._kajitsuka import next_token_net, seq2seq_net


def shape(
    heads: int, d: int, d_head: int, context: int, vocab: int = 2, layers: int = 1, d_mlp: int = 0
) -> Architecture:
    return Architecture(heads, d, d_head, context, vocab, n_layers=layers, d_mlp=d_mlp)


# key, (H, d, d_h, n), facts, parameters counted
MAHDAVI = [
    ("mahdavi2024_thm1", (8, 64, 64, 32), 249, 66_048),  # 8 * 31 + 1; 8 (2 * 64 * 64 + 64)
    ("mahdavi2024_thm1", (4, 16, 3, 8), 9, 448),  # 4 * 2 + 1; 4 (2 * 16 * 3 + 16)
    ("mahdavi2024_thm1", (1, 5, 5, 5), 5, 55),
    ("mahdavi2024_thm1", (64, 64, 32, 32), 1985, 266_240),
    ("mahdavi2024_general_position", (8, 64, 64, 32), 505, 66_048),  # 8 * 63 + 1
    ("mahdavi2024_general_position", (2, 3, 3, 4), 5, 42),
    ("mahdavi2024_general_position", (1, 10, 10, 10), 10, 210),
]


@pytest.mark.parametrize(("key", "numbers", "facts", "params"), MAHDAVI)
def test_mahdavi(key: str, numbers: tuple[int, int, int, int], facts: int, params: int) -> None:
    bound = get(key).bound(Setting(shape(*numbers)))
    assert (bound.facts, bound.params) == (facts, params)


@pytest.mark.parametrize(
    ("numbers", "kruskal", "facts"),
    [((16, 32, 16, 16), 6, 81), ((32, 32, 16, 16), 10, 289), ((16, 64, 16, 16), 40, 241), ((5, 8, 2, 6), 4, 6)],
)
def test_mahdavi_kruskal(numbers: tuple[int, int, int, int], kruskal: int, facts: int) -> None:
    assert get("mahdavi2024_kruskal").bound(Setting(shape(*numbers), kruskal=kruskal)).facts == facts


def test_mahdavi_kruskal_rank_decides_theorem_1() -> None:
    arch = shape(16, 32, 16, 16)
    assert get("mahdavi2024_thm1").bound(Setting(arch, kruskal=16)).facts == 241
    assert get("mahdavi2024_thm1").bound(Setting(arch, kruskal=15)).facts is None
    assert get("mahdavi2024_kruskal").bound(Setting(arch)).facts is None


def test_mahdavi_contexts_longer_than_wide_have_no_full_rank() -> None:
    assert get("mahdavi2024_thm1").bound(Setting(shape(4, 8, 8, 9))).facts is None


@pytest.mark.parametrize(
    ("numbers", "facts"),
    [((8, 16, 8, 8), 57), ((16, 32, 16, 16), 241), ((64, 64, 32, 32), 1985), ((2, 8, 8, 64), 16)],
)
def test_mahdavi_shared_upper(numbers: tuple[int, int, int, int], facts: int) -> None:
    theorem = get("mahdavi2024_shared_upper")
    assert theorem.bound(Setting(shape(*numbers), shared_context=True)).facts == facts
    assert theorem.bound(Setting(shape(*numbers))).facts is None


def test_general_position_fails_for_a_short_shared_context() -> None:
    assert get("mahdavi2024_general_position").bound(Setting(shape(8, 64, 64, 32), shared_context=True)).facts is None


# (H, d, d_h, S, N), H d_h + d, d (S + 2N + 4 d_h H)
DANA = [
    ((8, 2, 2, 2, 50), 18, 332),
    ((128, 64, 64, 16, 1000), 8256, 2_226_176),
    ((64, 32, 8, 16, 200), 544, 78_848),
]


@pytest.mark.parametrize("key", ["dana2025_cor1", "dana2025_cor2", "dana2025_thm1", "dana_rank_limit"])
@pytest.mark.parametrize(("numbers", "facts", "params"), DANA)
def test_dana(key: str, numbers: tuple[int, int, int, int, int], facts: int, params: int) -> None:
    bound = get(key).bound(Setting(shape(*numbers)))
    assert (bound.facts, bound.params) == (facts, params)


def test_dana_corollary_1_in_two_dimensions_counts_as_printed() -> None:
    # 2 (S + 2N + 4 (T_0 - 2)) with T_0 = H d_h + 2 = 18.
    assert get("dana2025_cor1").bound(Setting(shape(8, 2, 2, 2, 50))).params == 2 * (2 + 100 + 4 * 16)


@pytest.mark.parametrize(
    ("heads", "n_facts", "accuracy"), [(16, 2500, "0.0866"), (1, 2500, "0.0278"), (16, 170, "1.0000")]
)
def test_dana_corollary_2_accuracy(heads: int, n_facts: int, accuracy: str) -> None:
    # 1/50 + (49/50) 170/2500 = 0.08664; 1/50 + (49/50) 20/2500 = 0.02784; at the capacity it is 1.
    bound = get("dana2025_cor2").bound(Setting(shape(heads, 10, 10, 2, 50), n_facts=n_facts))
    assert bound.formula.endswith(f"= {accuracy}")


@pytest.mark.parametrize(
    ("numbers", "last", "facts"),
    [
        ((8, 32, 32, 2, 16), None, 144),
        ((8, 16, 16, 2, 10), None, 90),
        ((8, 16, 16, 2, 10), 4, 84),
        ((5, 6, 6, 1, 40), None, 6),
        ((5, 6, 6, 1, 40), 3, 3),
    ],
)
def test_dana_rank_limit(numbers: tuple[int, int, int, int, int], last: int | None, facts: int) -> None:
    assert get("dana_rank_limit").bound(Setting(shape(*numbers), distinct_last=last)).facts == facts


@pytest.mark.parametrize("key", ["dana2025_cor1", "dana2025_cor2", "dana2025_thm1"])
def test_dana_where_the_rank_condition_fails(key: str) -> None:
    theorem = get(key)
    assert theorem.bound(Setting(shape(8, 32, 32, 2, 16))).facts is None
    assert theorem.bound(Setting(shape(8, 8, 8, 4, 100), distinct_last=7)).facts is None
    assert theorem.bound(Setting(shape(8, 8, 8, 4, 100), distinct_last=8)).facts == 72
    assert theorem.bound(Setting(shape(8, 4, 8, 4, 100))).facts is None  # d_h > d
    assert theorem.bound(Setting(shape(8, 4, 4, 1, 100))).facts is None  # nothing to attend to


# (H, d, d_h, S, N), dtype, W B / log2 N
@pytest.mark.parametrize(
    ("numbers", "dtype", "facts"),
    [
        ((1, 2, 2, 2, 4), "float32", 576),  # 36 * 32 / 2
        ((1, 2, 2, 2, 4), "bfloat16", 288),
        ((2, 4, 2, 3, 1024), "float64", 52_915),  # 8268 * 64 / 10
        ((1, 2, 2, 2, 4), "exact", None),
    ],
)
def test_counting(numbers: tuple[int, int, int, int, int], dtype: Dtype, facts: int | None) -> None:
    assert get("counting").bound(Setting(shape(*numbers), dtype=dtype)).facts == facts


@pytest.mark.parametrize(
    ("key", "numbers", "facts"),
    [
        ("allenzhu2024", (1, 2, 2, 2, 4), 36),
        ("allenzhu2024", (2, 4, 2, 3, 1024), 1653),
        ("allenzhu2024", (1, 1, 1, 1, 2), 18),
        ("allenzhu2024_exposures", (1, 2, 2, 2, 4), 18),
        ("allenzhu2024_exposures", (2, 4, 2, 3, 1024), 826),
        ("allenzhu2024_exposures", (1, 1, 1, 1, 2), 9),
        ("allenzhu2024_int4", (1, 2, 2, 2, 4), 12),
        ("allenzhu2024_int4", (2, 4, 2, 3, 1024), 578),
        ("allenzhu2024_int4", (1, 1, 1, 1, 2), 6),
        ("allenzhu2024_moe", (1, 2, 2, 2, 4), 27),
        ("allenzhu2024_moe", (2, 4, 2, 3, 1024), 1272),
        ("allenzhu2024_moe", (1, 1, 1, 1, 2), 13),
        ("morris2025", (1, 2, 2, 2, 4), 68),
        ("morris2025", (2, 4, 2, 3, 1024), 3166),
        ("morris2025", (1, 1, 1, 1, 2), 34),
        ("kajitsuka2025_next_token_upper", (1, 2, 2, 2, 4), 21_024),
        ("kajitsuka2025_next_token_upper", (1, 1, 1, 1, 2), 1368),
        ("kajitsuka2025_next_token_upper", (2, 4, 2, 3, 1024), 1_093_823_328),
    ],
)
def test_constants(key: str, numbers: tuple[int, int, int, int, int], facts: int) -> None:
    # W = 2 (2 + 8 + 8) = 36; 4 (3 + 2048 + 16) = 8268; 1 (1 + 4 + 4) = 9.
    assert get(key).bound(Setting(shape(*numbers))).facts == facts


@pytest.mark.parametrize(("d_mlp", "gated", "facts"), [(0, True, 18), (3, False, 24), (3, True, 20)])
def test_allen_zhu_by_gate(d_mlp: int, gated: bool, facts: int) -> None:
    # 36/2; (36 + 2 * 2 * 3)/2; (36 + 3 * 2 * 3)/1.3/2 = 20.8. After 1,000 exposures the gate costs nothing.
    setting = Setting(shape(1, 2, 2, 2, 4).replace(d_mlp=d_mlp, gated=gated))
    assert get("allenzhu2024_exposures").bound(setting).facts == facts
    assert get("allenzhu2024").bound(setting).facts == setting.arch.params("full")


@pytest.mark.parametrize(("dtype", "facts"), [("bfloat16", 63), ("float32", 68), ("float16", 64), ("float64", 64)])
def test_morris_by_format(dtype: Dtype, facts: int) -> None:
    # 3.51 * 36 / 2 = 63.2, 3.83 * 36 / 2 = 68.9, 3.6 * 36 / 2 = 64.8.
    assert get("morris2025").bound(Setting(shape(1, 2, 2, 2, 4), dtype=dtype)).facts == facts


@pytest.mark.parametrize(
    ("d", "pairs"),
    # p ln p <= d^2/2: 1.4 <= 2 < 3.3; 4.2 d = 4: 5 ln 5 = 8.05 > 8, 4 ln 4 = 5.5; 32: 128 ln 128 = 621 > 512;
    # 110 ln 110 = 517 > 512 >= 109 ln 109 = 511.4.
    [(1, 1), (2, 2), (4, 4), (32, 109)],
)
def test_one_matrix_as_a_memory(d: int, pairs: int) -> None:
    bound = get("giorlandino2026").bound(Setting(shape(3, d, 1, 2, 50)))
    assert (bound.facts, bound.params, bound.own_shape) == (pairs, d * d, True)
    assert f"n = {pairs:,};" in get("barnfield2026").bound(Setting(shape(3, d, 1, 2, 50))).formula


def test_one_large_matrix_holds_072_bits_a_weight() -> None:
    bound = get("giorlandino2026").bound(Setting(shape(1, 4096, 64, 2, 50)))
    assert bound.bits_per_param == pytest.approx(1 / (2 * 0.693147), rel=1e-3)


@pytest.mark.parametrize(
    ("key", "numbers", "shown"),
    [
        ("nichani2024", (8, 64, 64, 32, 1000), "Theta~(max(131,072, 0))"),
        ("nichani2024", (1, 2, 2, 2, 4), "Theta~(max(16, 0))"),
        ("nichani2024", (2, 16, 4, 128, 50), "Theta~(max(512, 0))"),
        ("meyer2025", (8, 64, 64, 32, 1000), "d b k = 2,048 k"),
        ("meyer2025", (1, 2, 2, 2, 4), "d b k = 64 k"),
        ("meyer2025", (1, 1, 1, 1, 2), "d b k = 32 k"),
        ("houliston2025", (8, 64, 64, 32, 1000), "O(261,120); by counting at most 32 W / log2 1,000"),
        ("houliston2025", (1, 2, 2, 2, 4), "O(36); by counting at most 32 W / log2 4"),
        ("houliston2025", (1, 1, 1, 1, 2), "O(9)"),
        ("barnfield2026", (8, 64, 64, 32, 1000), "d^2 = 4,096 = Theta(n ln n)"),
        ("dugan2025", (8, 64, 64, 32, 1000), "Theta(0) at best"),
        ("yang2026_thought", (8, 64, 64, 32, 1000), "Theta~(1 * 261,120 * log(32 * 261,120)) examples"),
        ("yang2026_thought", (1, 2, 2, 2, 4), "Theta~(1 * 36 * log(2 * 36)) examples"),
        ("yang2026_thought", (1, 1, 1, 1, 2), "Theta~(1 * 9 * log(1 * 9)) examples"),
        ("kim2023", (8, 64, 64, 32, 1000), "O~(64 + 32 + sqrt(32 T))"),
        ("kim2023", (1, 3, 3, 5, 10), "O~(3 + 5 + sqrt(5 T))"),
        ("kim2023", (2, 16, 4, 128, 50), "O~(16 + 128 + sqrt(128 T))"),
        ("madden2024", (8, 64, 64, 32, 1000), "Theta(261,120/999)"),
        ("madden2024", (1, 2, 2, 2, 4), "Theta(36/3)"),
        ("madden2024", (1, 1, 1, 1, 2), "Theta(9/1)"),
        ("yang2026_vc", (8, 64, 64, 32, 1000), "O(1 * 261,120 * log(32 * 261,120))"),
        ("yang2026_vc", (1, 2, 2, 2, 4), "O(1 * 36 * log(2 * 36))"),
        ("yang2026_vc", (1, 1, 1, 1, 2), "O(1 * 9 * log(1 * 9))"),
        ("kajitsuka2025_seq2seq_upper", (8, 64, 64, 32, 1000), "O~(261,120^2 / 32)"),
        ("kajitsuka2025_seq2seq_upper", (1, 2, 2, 2, 4), "O~(36^2 / 2)"),
        ("kajitsuka2025_seq2seq_upper", (1, 1, 1, 1, 2), "O~(9^2 / 1)"),
    ],
)
def test_orders_show_the_formula_and_promise_no_number(
    key: str, numbers: tuple[int, int, int, int, int], shown: str
) -> None:
    bound = get(key).bound(Setting(shape(*numbers)))
    assert bound.facts is None
    assert shown in bound.formula


def test_constructed_mlps_need_an_mlp() -> None:
    none = get("dugan2025").bound(Setting(shape(1, 4, 4, 2, 9)))
    some = get("dugan2025").bound(Setting(shape(1, 4, 4, 2, 9, d_mlp=10)))
    assert not none.applies and some.applies and "Theta(120) at best" in some.formula
    none = get("hebbian2026").bound(Setting(shape(1, 4, 4, 2, 9)))
    some = get("hebbian2026").bound(Setting(shape(1, 4, 4, 2, 9, d_mlp=10)))
    assert not none.applies and some.applies and "O(40)" in some.formula


# T, n, V = C: with groups of one key a line network has 5 (m - 1) + 6 q_1 + 17 weights, q_1 = log2 R + c + 1: keys of
# T = 3 are tokens below 3 with values below 4 (q_1 = 5), and sums below 7 with labels below 3 (q_1 = 6). Three more
# weights for attention and the mean.
@pytest.mark.parametrize(
    ("n_facts", "context", "vocab", "weights"),
    [(2, 1, 2, 35 + 40 + 3), (3, 2, 3, 52 + 63 + 3), (1, 4, 10, 53 + 53 + 3)],
)
def test_next_token_network(n_facts: int, context: int, vocab: int, weights: int) -> None:
    net = next_token_net(n_facts, context, vocab, vocab)
    assert net is not None
    assert net.weights == weights
    # The shape with just this depth and width holds the facts, and one layer fewer does not.
    exact = get("kajitsuka2025_next_token").bound(
        Setting(shape(1, 7, 1, context, vocab, net.depth, net.width), dtype="exact")
    )
    assert exact.facts is not None
    assert exact.facts >= n_facts
    shallow = next_token_net(n_facts, context, vocab, vocab, max_width=net.width, shallow=True)
    assert shallow is not None
    less = get("kajitsuka2025_next_token").bound(
        Setting(shape(1, 7, 1, context, vocab, shallow.depth - 1, net.width), dtype="exact")
    )
    assert (less.facts or 0) < n_facts


# The first network also carries the token, one weight a layer: 9, 12 and 12 of them.
@pytest.mark.parametrize(
    ("n_facts", "context", "vocab", "weights"),
    [(2, 1, 2, 35 + 9 + 46 + 4), (3, 2, 3, 52 + 12 + 90 + 4), (1, 4, 10, 53 + 12 + 86 + 4)],
)
def test_seq2seq_network(n_facts: int, context: int, vocab: int, weights: int) -> None:
    net = seq2seq_net(n_facts, context, vocab, vocab)
    assert net is not None
    assert net.weights == weights


def test_bit_extraction_grows_like_the_square_root() -> None:
    sizes = [next_token_net(n, 32, 1000, 2) for n in (10**5, 10**7)]
    assert sizes[0] is not None
    assert sizes[1] is not None
    # A hundred times the facts for about ten times the weights; logarithms add a little.
    assert 8 < sizes[1].weights / sizes[0].weights < 16


@pytest.mark.parametrize(("convention", "per_head"), [("full", 16_384), ("rank1_qk", 8_320), ("merged_ov", 4_224)])
def test_counting_conventions(convention: Convention, per_head: int) -> None:
    # d (S + 2N) = 129,024, plus 128 heads of 4 d d_h, 2 d + 2 d d_h, or 2 d + d^2 weights.
    assert shape(128, 64, 64, 16, 1000).params(convention) == 129_024 + 128 * per_head


@pytest.mark.parametrize(
    ("numbers", "shared", "facts"),
    [
        ((16, 64, 16, 16), False, 1024),
        ((64, 64, 4, 32), True, 1985),
        ((2, 4, 4, 9), True, 8),
        ((3, 5, 1, 4), False, 15),
    ],
)
def test_random_features(numbers: tuple[int, int, int, int], shared: bool, facts: int) -> None:
    assert get("mahdavi_random_features").bound(Setting(shape(*numbers), shared_context=shared)).facts == facts


@pytest.mark.parametrize(
    ("d", "d_mlp", "vocab", "facts"), [(16, 32, 16, 140), (64, 64, 256, 563), (8, 8, 2, 70)]
)  # 1.1 d m / log2 N
def test_mlp_fit_estimate(d: int, d_mlp: int, vocab: int, facts: int) -> None:
    arch = Architecture(2, d, d // 2, 3, vocab, d_mlp=d_mlp, gated=True)
    assert get("mlp_fit").bound(Setting(arch)).facts == facts
    assert get("mlp_fit").bound(Setting(arch.replace(gated=False))).facts is None


@pytest.mark.parametrize(
    ("numbers", "facts"),
    [
        # In the plane 0.7 of the rank: 0.7 * 10 * 2.
        ((10, 2, 2, 8, 64), 14),
        # 1.4 * 32 (992 + 0.7 * 64) / 6 = 7741.4; a fifth and 1.5 square roots kept back.
        ((31, 32, 32, 8, 64), 6061),
        # Four tokens: 0.6 * 30 = 18 features count; 1.4 * 3 (18 + 2.8) / 2 = 43.7.
        ((10, 3, 3, 3, 4), 25),
    ],
)
def test_argmax_fit_estimate(numbers: tuple[int, int, int, int, int], facts: int) -> None:
    assert get("argmax_fit").bound(Setting(shape(*numbers))).facts == facts
    assert get("argmax_fit").bound(Setting(shape(*numbers), dtype="bfloat16")).facts == facts // 2
