//! CDBL: calls whose results have unknown dims although everything they are given is static.
//!
//! The rows are what `tests/python/backends/cdbl_probe.py` finds when it calls Paddle's public
//! functions and tensor methods; `backends/test_cdbl.py` compares.

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the function or tensor method.
    pub name: &'static str,
    /// Whether every call is refused, whatever its arguments. Otherwise the shapes of the result
    /// decide.
    pub always: bool,
}

const fn always(name: &'static str) -> Row {
    Row { name, always: true }
}

const fn by_result(name: &'static str) -> Row {
    Row {
        name,
        always: false,
    }
}

/// The table. Calls that are not in it are refused too when a dim of their result turns out to be
/// unknown.
///
/// Those that are refused by their result are given shapes, axes or numbers as tensors, or flags.
pub const CDBL: &[Row] = &[
    by_result("__getitem__"),
    by_result("accuracy"),
    by_result("adaptive_avg_pool2d"),
    always("affine_grid"),
    by_result("arange"),
    always("argwhere"),
    always("bincount"),
    by_result("broadcast_to"),
    always("class_center_sample"),
    by_result("column_stack"),
    by_result("combinations"),
    by_result("concat"),
    by_result("conv2d_transpose"),
    always("create_dct"),
    by_result("crop"),
    always("distribute_fpn_proposals"),
    by_result("dropout"),
    by_result("dropout1d"),
    by_result("dropout2d"),
    by_result("dropout3d"),
    by_result("empty"),
    by_result("expand"),
    by_result("eye"),
    by_result("full"),
    always("generate_proposals"),
    always("graph_khop_sampler"),
    always("graph_reindex"),
    always("graph_send_recv"),
    always("histogramdd"),
    by_result("interpolate"),
    by_result("isin"),
    always("linspace"),
    by_result("log_normal"),
    always("logspace"),
    always("masked_select"),
    always("matrix_nms"),
    by_result("max"),
    by_result("mean"),
    always("mel_frequencies"),
    by_result("min"),
    always("multi_label_margin_loss"),
    by_result("multinomial"),
    by_result("new_empty"),
    by_result("new_full"),
    by_result("new_ones"),
    by_result("new_zeros"),
    always("nms"),
    always("nonzero"),
    by_result("normal"),
    by_result("one_hot"),
    by_result("ones"),
    by_result("pad"),
    always("pdist"),
    by_result("prod"),
    by_result("rand"),
    always("rand_like"),
    always("randint_like"),
    by_result("randn"),
    always("randn_like"),
    by_result("range"),
    always("reindex_graph"),
    always("reindex_heter_graph"),
    by_result("repeat"),
    by_result("repeat_interleave"),
    by_result("reshape"),
    always("sample_neighbors"),
    by_result("segment_max"),
    by_result("segment_mean"),
    by_result("segment_min"),
    by_result("segment_sum"),
    always("send_u_recv"),
    always("send_ue_recv"),
    by_result("send_uv"),
    by_result("sequence_mask"),
    by_result("slice"),
    by_result("split"),
    by_result("standard_normal"),
    by_result("std"),
    by_result("tile"),
    by_result("topk"),
    by_result("unflatten"),
    by_result("uniform"),
    always("unique"),
    always("unique_consecutive"),
    by_result("upsample"),
    by_result("var"),
    by_result("vecdot"),
    by_result("vector_norm"),
    always("weighted_sample_neighbors"),
    by_result("where"),
    by_result("zeros"),
];

/// Whether every call of `name` is refused.
pub fn is_listed(name: &str) -> bool {
    CDBL.iter().any(|row| row.always && row.name == name)
}
