"""Networks of affine maps and ReLU with exact (dyadic) weights: layers, memorisers on the line, bit accounting."""
