"""Networks of affine maps and ReLU with exact (dyadic rational) weights: layers, memorisers on the line, bit accounting."""
