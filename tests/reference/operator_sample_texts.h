// The texts of operator_samples.h: the inputs of a graph and its nodes, of which the last is the sample. Inputs get
// numbers that differ; what must have certain elements is a constant.
#pragma once

namespace camshaft::samples_detail {

struct SampleText {
  const char *inputs, *nodes;
};

inline constexpr SampleText computing[] = {
    {"%a: f32[2, 3, 4], %b: f32[3, 1]", "%y = pointwise {function=mul} (%a, %b)"},
    {"%a: f32[1, 4, 4, 4], %b: f32[1, 4, 4, 4]", "%y = pointwise {function=max} (%a, %b)"},
    {"%c: bool[2, 1], %a: f32[2, 3], %b: f32[3]", "%y = pointwise {function=select} (%c, %a, %b)"},
    {"%x: f32[1, 4, 4, 4]", "%y = cast {to=i32} (%x)"},
    {"%x: f32[2, 3]", "%y = bit_cast {to=i32} (%x)"},
    {"%a: f32[2, 3, 4], %b: f32[4, 5]", "%y = matmul {} (%a, %b)"},
    {"%a: f32[4, 3], %b: f32[5, 4]", "%y = matmul {transpose_a=true, transpose_b=true} (%a, %b)"},
    {"%x: f32[1, 4, 4, 4], %w: f32[4, 2, 3, 3], %b: f32[4]",
     "%y = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=2} (%x, %w, %b)"},
    {"%x: f32[1, 4, 4, 4], %w: f32[4, 3, 2, 2]",
     "%y = conv_transpose {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], output_padding=shape(0, 0)} "
     "(%x, %w)"},
    {"%a: u8[2, 3], %b: i8[3, 4]", "%y = integer_matmul {} (%a, %b)"},
    {"%a: f8e4m3[2, 3], %b: f8e4m3[3, 4]", "%y = float8_matmul {} (%a, %b)"},
    {"%x: f8e5m2[1, 4, 4, 4], %w: f8e5m2[4, 4, 3, 3]",
     "%y = float8_conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w)"},
    {"%x: f32[2, 3], %w: u8[5, 3], %s: f32[5, 2], %z: u8[]",
     "%y = weight_only_matmul {block=2, transposed=true} (%x, %w, %s, %z)"},
    {"%x: u8[2, 3]", "%y = read_bytes_as {} (%x)"},
    {"%x: u8[1, 4, 4, 4], %w: i8[4, 4, 3, 3]",
     "%y = integer_conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w)"},
    {"%x: f32[2, 3]", "const %s: f32[] = 0.5\nconst %z: u8[] = 3\n%y = quantize {} (%x, %s, %z)"},
    {"%x: u8[2, 3], %s: f32[], %z: u8[]", "%y = dequantize {} (%x, %s, %z)"},
    {"%x: f32[2, 3]", "%y, %s, %z = dynamic_quantize {} (%x)"},
    {"%x: f32[2, 3]", "%y = round_blocks {block=2} (%x)"},
    {"%q: f32[2], %k: f32[3], %v: f32[3]",
     "%y = attention {outer=shape(1), queries=shape(2), keys=shape(3), query=shape(0, 0, 1, 1), key=shape(0, 0, 1, 1), "
     "value=shape(0, 0, 1, 1), result=shape(0, 2, 1, 1), shape=shape(2)} (%q, %k, %v)"},
    {"%x: f32[3, 16], %c: f32[3, 2], %s: f32[3, 2]",
     "%y = rotary_embedding {rotated=4, axes=shape(3), x=shape(8, 16), cosine=shape(0, 2, 0, 1), "
     "sine=shape(0, 2, 0, 1), shape=shape(3, 4)} (%x, %c, %s)"},
    {"%x: f32[1, 4, 4, 4]", "%y = reduce {kind=sum, axes=[1], keep_dims=false} (%x)"},
    {"%x: f32[1, 4, 4, 4]", "%y = reduce {kind=max, axes=[1, 2]} (%x)"},
    {"%x: f32[1, 4, 4, 4]", "%y = arg_reduce {axis=1} (%x)"},
    {"%x: f32[1, 4, 4, 4]", "%y = softmax {axis=1} (%x)"},
    {"%x: f32[2, 3], %s: f32[3]", "%y = layer_norm {axis=1} (%x, %s)"},
    {"%x: f32[1, 4, 4, 4], %s: f32[4], %b: f32[4]", "%y = group_norm {groups=2} (%x, %s, %b)"},
    {"%x: f32[2, 8]", "%y = row_moments {width=4} (%x)"},
    {"%x: f32[2, 2, 2]", "%m, %f = row_norm {width=4} (%x)"},
    {"%x: f32[1, 4, 4, 4]",
     "%y = pool {kind=max, kernel=[3, 3], strides=[2, 2], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x)"},
    {"%x: f32[1, 4, 4, 4]",
     "%y = pool {kind=average, kernel=[2, 2], strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x)"},
    {"%x: f32[1, 4, 4, 4]", "%y = resize {mode=nearest, axes=[2, 3], sizes=shape(8, 3)} (%x)"},
    {"%x: f32[1, 4, 4, 4]", "%y = resize {mode=linear, axes=[1, 2], sizes=shape(2, 8), scales=[0.5, 2.0]} (%x)"},
    {"%x: f32[1, 4, 4, 4]",
     "%y = resize {coordinate=tf_crop_and_resize, axes=[1, 2], sizes=shape(4, 6), roi=[0.0, 0.25, 1.0, 0.75]} (%x)"},
    {"%x: f32[2, 3]", "const %a: i64[] = 1\n%y = cumulative {} (%x, %a)"},
    {"%x: f32[2, 3]", "const %k: i64[1] = 2\n%v, %i = top_k {axis=1} (%x, %k)"},
    {"%x: f32[1, 2, 4, 4]",
     "%y = max_pool_indices {kernel=[2, 2], strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x)"},
    {"%x: f32[1, 2, 4, 4], %r: f32[2, 4]",
     "const %b: i64[2] = 0\n%y = roi_align {height=2, width=2, sampling_ratio=2} (%x, %r, %b)"},
    {"%x: f32[1, 2, 4, 4]", "const %r: f32[1, 5] = [0, 0, 0, 3, 3]\n%y = max_roi_pool {height=2, width=2} (%x, %r)"},
    {"%x: f32[1, 2, 4, 4], %g: f32[1, 3, 3, 2]", "%y = grid_sample {} (%x, %g)"},
    {"%x: f32[1, 2, 4, 4], %w: f32[3, 2, 3, 3], %o: f32[1, 18, 4, 4]",
     "%y = deform_conv {strides=[1, 1], dilations=[1, 1], pads=shape(1, 1, 1, 1)} (%x, %w, %o)"},
    {"%x: f32[1, 8, 4]",
     "const %i: i64[2] = 3\nconst %k: i64[2] = 2\n"
     "%y = col2im {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x, %i, %k)"},
    {"%x: f32[2, 3, 3]", "%y = determinant {} (%x)"},
    {"%x: f32[1, 4, 1]", "%y = dft {axis=1} (%x)"},
    {"%x: f32[1, 8, 1]", "const %s: i64[] = 2\nconst %n: i64[] = 4\n%y = stft {} (%x, %s, -, %n)"},
    {"%x: f32[2, 1, 3], %w: f32[1, 2, 3], %r: f32[1, 2, 2]",
     "%y, %h = recurrent {cell=rnn, activations=[\"tanh\"], alphas=[0.0], betas=[0.0]} (%x, %w, %r)"},
    {"%q: f32[1, 2, 3], %k: f32[1, 2, 3], %v: f32[1, 2, 4]", "%y, %s = linear_attention {} (%q, %k, %v)"},
    {"%x: f32[2, 6]", "%y = collective {kind=all_gather, ranks=2, axis=1} (%x)"},
    {"%c: f32[3, 2, 4], %r: f32[2, 4]", "const %s: i64[2] = [5, 0]\n%y = paged_store {} (%c, %r, %s)"},
    {"%q: f32[3, 4], %k: f32[4, 2, 1, 2], %v: f32[4, 2, 1, 3]",
     "const %s: i32[3] = [0, 2, 3]\nconst %p: i32[2] = [1, 0]\nconst %t: i32[2, 2] = [3, 1, 0, 0]\n"
     "%y = paged_attention {heads=2} (%q, %k, %v, %s, %p, %t)"},
    {"%q: f32[2, 8], %k: f32[2, 4], %v: f32[2, 3], %c: f32[2, 1], %s: f32[2, 1], %kc: f32[2, 2, 1, 4], %vc: f32[2, 2, "
     "1, 3]",
     "const %at: i64[2] = [3, 0]\n"
     "%y, %ko, %vo = paged_update {heads=2, rotated=2} (%q, %k, %v, %c, %s, %at, %kc, %vc)"},
    {"%c: i8[3, 2, 2, 4], %s: f32[3, 2, 2], %r: f32[2, 2, 4]",
     "const %p: i64[2] = [5, 0]\n%y, %z = paged_quantize {} (%c, %s, %r, %p)"},
    {"%x: f32[3, 2], %w: f32[2, 2, 4]", "const %i: i64[3] = [1, -1, 0]\n%y = gather_matmul {} (%x, %i, %w)"},
    {"%x: f32[2, 3], %y: f32[4, 3]", "%d = pairwise_distance {} (%x, %y)"},
    {"%x: f32[2, 3]", "%y = score_transform {transform=softmax} (%x)"},
    {"%k: f32[2, 3], %c: f32[1, 3], %r: f32[1]",
     "%y, %s = support_vector_vote {vectors_per_class=[1, 2]} (%k, %c, %r)"},
    {"%x: f32[2, 1]",
     R"(const %compare: u8[1] = 0
        const %features: i32[1] = 0
        const %thresholds: f32[1] = 1
        const %children: i32[1, 2] = [-1, -2]
        const %roots: i32[1] = 0
        const %starts: i32[3] = [0, 1, 2]
        const %targets: i32[2] = 0
        const %weights: f32[2] = [1, 2]
        const %base: f32[1] = 0.5
        %y = tree_ensemble {} (%x, %compare, %features, %thresholds, %children, %roots, %starts, %targets, %weights,
                               %base))"},
};

inline constexpr SampleText moving[] = {
    {"%x: f32[1, 4, 4, 4]", "%y = reshape {shape=shape(1, 4, 16)} (%x)"},
    {"%x: f32[1, 4, 4, 4]", "%y = transpose {permutation=[0, 2, 3, 1]} (%x)"},
    {"%x: f32[1, 4, 4, 1]", "%y = expand {shape=shape(4, 1, 3)} (%x)"},
    {"%a: f32[1, 4, 4, 4], %b: f32[1, 2, 4, 4]", "%y = concat {axis=1} (%a, %b)"},
    {"%x: f32[1, 4, 4, 4]", "%y = slice {axes=[1, 3], starts=shape(1, 3), counts=shape(2, 2), steps=[1, -2]} (%x)"},
    {"%x: f32[4, 4]", "const %s: i64[1] = 1\nconst %e: i64[1] = 3\n%y = dynamic_slice {} (%x, %s, %e)"},
    {"%x: f32[1, 4, 4, 4]", "%y = pad {mode=reflect, pads=shape(0, 1, 2, 0, 0, 0, 1, 3)} (%x)"},
    {"%x: f32[1, 4, 4, 4]", "%y = pad {pads=shape(0, 0, 1, 1, 0, 2, 1, -1)} (%x)"},
    {"%x: f32[4, 3]", "const %i: i64[2] = [3, 1]\n%y = gather {axis=0} (%x, %i)"},
    {"%x: f32[4, 3]", "const %i: i64[2, 3] = [0, 1, 3, 2, 2, 0]\n%y = gather_elements {axis=0} (%x, %i)"},
    {"%x: f32[4, 3]", "const %i: i64[2, 2] = [0, 1, 3, 2]\n%y = gather_nd {} (%x, %i)"},
    {"%x: f32[4, 3]", "%y = index_map {shape=shape(3, 2), along=[1, 0], steps=[1, 2], starts=shape(1, 0)} (%x)"},
    {"%x: f32[4]", "%y = index_map {shape=shape(6), along=[0], steps=[1], starts=shape(2), wraps=true} (%x)"},
    {"%x: f32[4, 3], %u: f32[2, 3]", "const %i: i64[2, 1] = [3, 1]\n%y = scatter_nd {} (%x, %i, %u)"},
    {"%x: f32[4, 3], %u: f32[2, 3]", "const %i: i64[2, 1] = [3, 1]\n%y = scatter_nd {kind=add} (%x, %i, %u)"},
    {"%x: f32[4, 3], %u: f32[1, 3]", "const %i: i64[1, 3] = [3, 1, 0]\n%y = scatter_elements {kind=min} (%x, %i, %u)"},
    {"%x: f32[2, 4, 3], %u: f32[2, 2, 3]", "const %s: i64[2] = [0, 2]\n%y = tensor_scatter {} (%x, %u, %s)"},
    {"%x: f32[4, 2]", "const %n: i64[2] = [3, 4]\n%y = reverse_sequence {} (%x, %n)"},
    {"%x: f32[2, 3]", "const %a: i64[1] = 1\n%y = dynamic_reduce {kind=max, rank=2} (%x, %a)"},
    {"%x: f32[1, 3]", "const %a: i64[1] = 0\n%y = dynamic_squeeze {rank=1} (%x, %a)"},
    {"%x: f32[2, 3]", "const %a: i64[1] = 1\n%y = dynamic_unsqueeze {rank=3} (%x, %a)"},
    {"%x: f32[2, 3]", "const %r: i64[2] = [2, 1]\n%y = dynamic_tile {} (%x, %r)"},
    {"%x: f32[2, 3]", "const %s: i64[2] = [1, 2]\n%a, %b = dynamic_split {axis=1} (%x, %s)"},
    {"%x: f32[2, 3]", "const %p: i64[4] = [0, 1, 1, 0]\n%y = dynamic_pad {} (%x, %p)"},
    {"%x: f32[2, 3]", "const %p: i64[4] = [0, 1, 1, 0]\n%y = dynamic_pad {mode=edge} (%x, %p)"},
    {"%x: f32[1, 1, 2, 2]", "const %n: i64[2] = [4, 3]\n%y = dynamic_resize {axes=[2, 3]} (%x, -, -, %n)"},
    {"%x: f32[2]",
     "%y = region {kind=pointwise} (%x)\n"
     "graph (%a: f32[2]) {%t = pointwise {function=neg} (%a) return %t}"},
    {"%x: f32[4]",
     "%y = region {kind=move} (%x)\n"
     "graph (%a: f32[4]) {%t = slice {axes=[0], starts=shape(1), counts=shape(2), steps=[1]} (%a) "
     "return %t}"},
};

inline constexpr SampleText others[] = {
    {"%x: f32[2, 3]", "%y = non_zero {} (%x)"},
    {"%x: f32[4]", "%y, %f, %i, %c = unique {} (%x)"},
    {"%b: f32[1, 3, 4], %s: f32[1, 1, 3]", "const %m: i64[] = 2\n%y = non_max_suppression {} (%b, %s, %m)"},
    {"", R"(const %bins: i64[] = 4
            const %length: i64[] = 16
            const %rate: i64[] = 8000
            const %low: f32[] = 0
            const %high: f32[] = 4000
            %y = mel_weights {} (%bins, %length, %rate, %low, %high))"},
    {"", "%y = dims {elements=shape(2, 3)} ()"},
    {"%x: f32[2, 3]", "%y = shape_of {start=0, end=2} (%x)"},
    {"", "const %a: i64[] = 0\nconst %b: i64[] = 5\nconst %c: i64[] = 2\n%y = range {} (%a, %b, %c)"},
    {"", "%y = random {shape=shape(2, 3)} ()"},
    {"%x: f32[2, 3]", "%y = multinomial {samples=4} (%x)"},
    {"%c: bool[], %x: f32[2]",
     "%y = if {} (%c, %x)\ngraph (%a: f32[2]) {return %a}\n"
     "graph (%a: f32[2]) {%t = pointwise {function=neg} (%a) return %t}"},
    {"%c: bool[], %x: f32[2]", "%y = check {message=\"never\"} (%c, %x)"},
    {"%x: f32[2]",
     "const %n: i64[] = 3\n%y = loop {carried=1} (%n, -, %x)\n"
     "graph (%i: i64[], %c: bool[], %a: f32[2]) {%t = pointwise {function=neg} (%a) return %c, %t}"},
    {"%s: f32[2], %x: f32[3, 2]",
     "%f, %c = scan {states=1, input_axes=[0], input_reversed=[0], output_axes=[0], output_reversed=[0]} (%s, %x)\n"
     "graph (%a: f32[2], %b: f32[2]) {%t = pointwise {function=add} (%a, %b) return %t, %b}"},
    {"", "const %x: i64[2] = [2, 5]\nconst %k: i64[3] = [1, 2, 3]\n%y = find_keys {} (%x, %k)"},
    {"%x: f32[2, 3]", "const %k: i64[3] = [30, 10, 20]\n%y = rows_to_maps {} (%x, %k)"},
    {"%x: f32[3]",
     "const %k: i64[3] = [30, 10, 20]\n%s = rows_to_maps {} (%x, %k)\nconst %i: i64[] = 0\n"
     "%m = sequence_at {} (%s, %i)\n%a, %b = map_entries {} (%m)"},
    {"%a: string[2, 3], %b: string[2, 1]", "%y = string_concat {} (%a, %b)"},
    {"%a: string[2]", "%y, %n = string_split {delimiter=\"a\"} (%a)"},
    {"%a: string[2]", "%y = string_normalize {change=upper} (%a)"},
    {"%a: string[2, 3]", "%y = regex_match {pattern=\"aa.*\"} (%a)"},
    {"", R"(const %ids: i64[4] = [1, 2, 1, 3]
            const %grams: i64[3] = [1, 2, 3]
            const %columns: i64[3] = [0, 1, 2]
            const %weights: f32[3] = 1
            %y = count_terms {gram_counts=[3]} (%ids, %grams, %columns, %weights))"},
    {"%x: f32[2, 3]", "%y = plugin {operator=\"test::Doubled\", version=\"1\", hash=\"0\"} (%x)"},
    {"%a: string[2]", "%y = tokenize {token=\"[a-z]+\"} (%a)"},
    {"", "const %file: u8[12] = [80, 53, 32, 49, 32, 49, 32, 50, 53, 53, 10, 7]\n%y = image_decoder {} (%file)"},
    {"%a: f32[2], %b: f32[2]", "%y = sequence_construct {} (%a, %b)"},
    {"%a: f32[2], %b: f32[2]", "%s = sequence_construct {} (%a)\n%y = sequence_insert {} (%s, %b)"},
    {"%a: f32[2], %b: f32[2]", "%s = sequence_construct {} (%a, %b)\n%y = sequence_erase {} (%s)"},
    {"%a: f32[2]", "%s = sequence_construct {} (%a)\nconst %i: i64[] = 0\n%y = sequence_at {} (%s, %i)"},
    {"%a: f32[2]", "%s = sequence_construct {} (%a)\n%y = sequence_length {} (%s)"},
    {"%x: f32[4, 2]", "%y = split_to_sequence {axis=0} (%x)"},
    {"%a: f32[2], %b: f32[2]", "%s = sequence_construct {} (%a, %b)\n%y = concat_from_sequence {axis=0} (%s)"},
    {"%a: f32[2]",
     "%s = sequence_construct {} (%a)\n%y = sequence_map {count=1} (%s)\n"
     "graph (%e: f32[2]) {%t = pointwise {function=neg} (%e) return %t}"},
    {"%a: f32[2]", "%y = optional {} (%a)"},
    {"%a: f32[2]", "%o = optional {} (%a)\n%y = optional_get_element {} (%o)"},
    {"%a: f32[2]", "%o = optional {} (%a)\n%y = optional_has_element {} (%o)"},
};

}  // namespace camshaft::samples_detail
