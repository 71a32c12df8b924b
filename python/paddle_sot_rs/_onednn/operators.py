"""Operators that Paddle's passes for oneDNN know."""

# They ask for no more than the name.
KNOWN = frozenset(
    """
    abs add add_n batch_norm bilinear_interp cast clip concat conv2d conv2d_transpose
    conv2d_transpose_bias conv3d depthwise_conv2d divide elu exp fc flatten full fusion_gru
    gaussian gelu hardswish layer_norm leaky_relu log_softmax lrn matmul matmul_with_flatten max
    mean min mish multiply nearest_interp pad pad3d pool2d prelu prior_box relu relu6 reshape
    round scale shape sigmoid slice softmax softplus split split_with_num sqrt squeeze stack
    subtract sum swish tanh transpose unsqueeze
    """.split()
)
