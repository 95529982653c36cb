// Operators over millions of elements, as texts: the inputs of a graph and its nodes, of which the last is meant. Of
// those that work row by row there are many short rows and few long ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/ops/operators.h"
#include "ir/text.h"
#include "reference/evaluate.h"
#include "reference/operator_samples.h"

namespace camshaft {

/// The last node of a text, its operands computed by those before.
class LargeSample {
 public:
  LargeSample(const samples_detail::SampleText& text, ThreadPool& pool)
      : graph_(parse_graph("graph (" + std::string(text.inputs) + ") {\n" + text.nodes + "\nreturn\n}", operators())) {
    std::vector<Tensor> inputs;
    int64_t next = 0;
    for (const ValueId id : graph_.inputs) inputs.push_back(samples_detail::sample_tensor(graph_.type(id), next));
    Graph before = graph_;
    before.nodes.pop_back();
    for (const ValueId id : node().inputs)
      if (id != no_value) before.add_output("operand" + std::to_string(before.outputs.size()), id);
    const std::vector<Tensor> given = camshaft::evaluate(before, inputs, pool);
    auto at = given.begin();
    for (const ValueId id : node().inputs) operands_.push_back(id == no_value ? Tensor() : *at++);
  }

  const Node& node() const { return graph_.nodes.back(); }
  const Graph& graph() const { return graph_; }
  const std::vector<Tensor>& operands() const { return operands_; }
  std::vector<Tensor> evaluate(ThreadPool& pool) const {
    std::vector<TensorType> types;
    for (const ValueId id : node().outputs) types.push_back(graph_.type(id));
    return camshaft::evaluate(node().op, EvalContext{operands_, types, {}, node().bodies, pool});
  }

 private:
  Graph graph_;
  std::vector<Tensor> operands_;
};

/// Operators that do nothing for each element, leave it to other operators, or to bodies, whose every node asks. What
/// decodes pictures, and what plugins do, is not ours.
inline constexpr std::string_view no_loops[] = {"reshape",
                                                "read_bytes_as",
                                                "dims",
                                                "shape_of",
                                                "dynamic_squeeze",
                                                "dynamic_unsqueeze",
                                                "check",
                                                "if",
                                                "loop",
                                                "scan",
                                                "region",
                                                "sequence_map",
                                                "sequence_construct",
                                                "sequence_insert",
                                                "sequence_erase",
                                                "sequence_at",
                                                "sequence_length",
                                                "optional",
                                                "optional_get_element",
                                                "optional_has_element",
                                                "image_decoder",
                                                "plugin"};

inline constexpr samples_detail::SampleText large_operators[] = {
    {"%a: f32[2048, 2048], %b: f32[2048, 1]", "%y = pointwise {function=mul} (%a, %b)"},
    {"%a: u8[4194304]", "%y = cast {to=u4} (%a)"},
    {"%x: f32[4194304]", "%y = cast {to=i32} (%x)"},
    {"%x: f32[1048576]", "%s = cast {to=string} (%x)\n%y = cast {to=f32} (%s)"},
    {"%x: u8[4194304]", "%y = bit_cast {to=bool} (%x)"},
    {"%x: f32[1048576]", "%y = cast {to=string} (%x)"},
    {"%a: f32[2097152, 2], %b: f32[2, 1]", "%y = matmul {} (%a, %b)"},
    {"%a: f32[1, 2097152], %b: f32[2097152, 1]", "%y = matmul {} (%a, %b)"},
    {"%a: f32[1048576, 2, 2], %b: f32[1048576, 2, 2]", "%y = matmul {} (%a, %b)"},
    {"%x: f32[1, 1, 2048, 2048], %w: f32[1, 1, 3, 3]",
     "%y = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=1} (%x, %w)"},
    {"%x: f32[1, 1, 1024, 1024], %w: f32[1, 1, 2, 2]",
     "%y = conv_transpose {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], output_padding=shape(0, 0)} "
     "(%x, %w)"},
    {"%x: f32[1, 1, 2, 2], %w: f32[1, 1, 2, 2]",
     "%y = conv_transpose {strides=[2000, 2000], pads=shape(0, 0, 0, 0), dilations=[1, 1], output_padding=shape(0, 0)} "
     "(%x, %w)"},
    {"%a: u8[1048576, 3], %b: i8[3, 2]", "%y = integer_matmul {} (%a, %b)"},
    {"%a: f8e4m3[1048576, 3], %b: f8e4m3[3, 2]", "%y = float8_matmul {} (%a, %b)"},
    {"%x: f8e5m2[1, 1, 2048, 2048], %w: f8e5m2[1, 1, 3, 3]",
     "%y = float8_conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w)"},
    {"%x: f32[1, 2048], %w: u8[1024, 2048], %s: f32[1024, 32], %z: u8[]",
     "%y = weight_only_matmul {block=64, transposed=true} (%x, %w, %s, %z)"},
    {"%x: u8[1, 1, 2048, 2048], %w: i8[1, 1, 3, 3]",
     "%y = integer_conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w)"},
    {"%x: f32[4194304]", "const %s: f32[] = 0.5\nconst %z: u8[] = 3\n%y = quantize {} (%x, %s, %z)"},
    {"%x: u8[4194304], %s: f32[], %z: u8[]", "%y = dequantize {} (%x, %s, %z)"},
    {"%x: f32[4194304]", "%y, %s, %z = dynamic_quantize {} (%x)"},
    {"%x: f32[1024, 4096]", "%y = round_blocks {block=32} (%x)"},
    {"%q: f32[1048576, 2], %k: f32[1048576, 1], %v: f32[1048576, 1]",
     "%y = attention {outer=shape(1048576), queries=shape(2), keys=shape(1), query=shape(0, 2, 1, 1), "
     "key=shape(0, 1, 1, 1), value=shape(0, 1, 1, 1), result=shape(0, 2, 1, 1), shape=shape(1048576, 2)} (%q, %k, %v)"},
    {"%q: f32[2], %k: f32[2097152], %v: f32[2097152]",
     "%y = attention {outer=shape(1), queries=shape(2), keys=shape(2097152), query=shape(0, 0, 1, 1), key=shape(0, 0, "
     "1, 1), value=shape(0, 0, 1, 1), result=shape(0, 2, 1, 1), shape=shape(2)} (%q, %k, %v)"},
    {"%x: f32[1048576, 16], %c: f32[1048576, 2], %s: f32[1048576, 2]",
     "%y = rotary_embedding {rotated=4, axes=shape(1048576), x=shape(8, 16), cosine=shape(0, 2, 0, 1), "
     "sine=shape(0, 2, 0, 1), shape=shape(1048576, 4)} (%x, %c, %s)"},
    {"%x: f32[2048, 2048]", "%y = reduce {kind=sum, axes=[0], keep_dims=false} (%x)"},
    {"%x: f32[2048, 2048]", "%y = reduce {kind=max, axes=[1]} (%x)"},
    {"%x: f32[4194304]", "%y = reduce {kind=sum, axes=[0]} (%x)"},
    {"%x: f32[4194304, 1]", "%y = reduce {kind=sum, axes=[1]} (%x)"},
    {"%x: f32[4194304]", "%y = arg_reduce {axis=0} (%x)"},
    {"%x: f32[2, 2097152]", "%y = arg_reduce {axis=0} (%x)"},
    {"%x: f32[2097152, 2]", "%y = arg_reduce {axis=1} (%x)"},
    {"%x: f32[4194304]", "%y = softmax {axis=0} (%x)"},
    {"%x: f32[2097152, 2]", "%y = softmax {axis=1} (%x)"},
    {"%x: f32[2, 2097152]", "%y = softmax {axis=0} (%x)"},
    {"%x: f32[1048576, 2], %s: f32[2]", "%y = layer_norm {axis=1} (%x, %s)"},
    {"%x: f32[2, 2097152], %s: f32[2097152]", "%y = layer_norm {axis=1} (%x, %s)"},
    {"%x: f32[1, 4, 1024, 1024], %s: f32[4], %b: f32[4]", "%y = group_norm {groups=2} (%x, %s, %b)"},
    {"%x: f32[524288, 8]", "%y = row_moments {width=4} (%x)"},
    {"%x: f32[524288, 2, 2]", "%m, %f = row_norm {width=4} (%x)"},
    {"%x: f32[1, 1, 2048, 2048]",
     "%y = pool {kind=max, kernel=[3, 3], strides=[2, 2], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x)"},
    {"%x: f32[1, 1, 2048, 2048]",
     "%y = pool {kind=average, kernel=[2048, 2048], strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x)"},
    {"%x: f32[1, 1, 16, 16]", "%y = resize {mode=nearest, axes=[2, 3], sizes=shape(2048, 2048)} (%x)"},
    {"%x: f32[1, 1, 16, 16]", "%y = resize {mode=cubic, axes=[2, 3], sizes=shape(2048, 2048)} (%x)"},
    {"%x: f32[1, 4]", "%y = resize {mode=linear, axes=[1], sizes=shape(4194304)} (%x)"},
    {"%x: f32[2, 1048576]", "%y = resize {mode=linear, axes=[0], sizes=shape(4)} (%x)"},
    {"%x: f32[2, 2097152]", "const %a: i64[] = 1\n%y = cumulative {} (%x, %a)"},
    {"%x: f32[2, 2097152]", "const %a: i64[] = 0\n%y = cumulative {} (%x, %a)"},
    {"%x: f32[2097152, 2]", "const %k: i64[1] = 1\n%v, %i = top_k {axis=1} (%x, %k)"},
    {"%x: f32[2097152]", "const %k: i64[1] = 2097152\n%v, %i = top_k {axis=0} (%x, %k)"},
    {"%x: f32[1, 1, 2048, 2048]",
     "%y = max_pool_indices {kernel=[2, 2], strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x)"},
    {"%x: f32[1, 2, 4, 4], %r: f32[2, 4]",
     "const %b: i64[2] = 0\n%y = roi_align {height=1024, width=512, sampling_ratio=2} (%x, %r, %b)"},
    {"%x: f32[1, 2, 4, 4]",
     "const %r: f32[1, 5] = [0, 0, 0, 3, 3]\n%y = max_roi_pool {height=1024, width=1024} (%x, %r)"},
    {"%x: f32[1, 2, 4, 4], %g: f32[1, 1000, 1000, 2]", "%y = grid_sample {} (%x, %g)"},
    {"%x: f32[1, 1, 1024, 1024], %w: f32[1, 1, 1, 1], %o: f32[1, 2, 1024, 1024]",
     "%y = deform_conv {strides=[1, 1], dilations=[1, 1], pads=shape(0, 0, 0, 0)} (%x, %w, %o)"},
    {"%x: f32[1, 4, 1048576]",
     "const %i: i64[2] = 2048\nconst %k: i64[2] = 2\n"
     "%y = col2im {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x, %i, %k)"},
    {"%x: f32[1048576, 2, 2]", "%y = determinant {} (%x)"},
    {"%x: f32[1, 1048576, 1]", "%y = dft {axis=1} (%x)"},
    {"%x: f32[1048576, 2, 1]", "%y = dft {axis=1} (%x)"},
    {"%x: f32[1, 2097152, 1]", "const %s: i64[] = 2\nconst %n: i64[] = 4\n%y = stft {} (%x, %s, -, %n)"},
    {"%x: f32[524288, 1, 3], %w: f32[1, 2, 3], %r: f32[1, 2, 2]",
     "%y, %h = recurrent {cell=rnn, activations=[\"tanh\"], alphas=[0.0], betas=[0.0]} (%x, %w, %r)"},
    {"%q: f32[1, 524288, 3], %k: f32[1, 524288, 3], %v: f32[1, 524288, 4]",
     "%y, %s = linear_attention {} (%q, %k, %v)"},
    {"%x: f32[1048576, 2]", "%y = collective {kind=all_reduce, ranks=3} (%x)"},
    {"%c: f32[1, 2, 1], %r: f32[1048576, 1]", "const %s: i64[1048576] = 1\n%y = paged_store {} (%c, %r, %s)"},
    {"%q: f32[1048576, 1], %k: f32[1, 512, 1, 1], %v: f32[1, 512, 1, 1]",
     "const %s: i32[2] = [0, 512]\nconst %p: i32[1] = 0\nconst %t: i32[1, 1] = 0\n"
     "%y = paged_attention {} (%q, %k, %v, %s, %p, %t)"},
    {"%q: f32[524288, 2], %k: f32[524288, 2], %v: f32[524288, 1], %c: f32[524288, 1], %s: f32[524288, 1], "
     "%kc: f32[1, 2, 1, 2], %vc: f32[1, 2, 1, 1]",
     "const %at: i64[524288] = 1\n%y, %ko, %vo = paged_update {rotated=2} (%q, %k, %v, %c, %s, %at, %kc, %vc)"},
    {"%c: i8[1, 2, 1, 1], %s: f32[1, 2, 1], %r: f32[1048576, 1, 1]",
     "const %p: i64[1048576] = 1\n%y, %z = paged_quantize {} (%c, %s, %r, %p)"},
    {"%x: f32[1048576, 1], %w: f32[1, 1, 1]", "const %i: i64[1048576] = 0\n%y = gather_matmul {} (%x, %i, %w)"},
    {"%x: f32[1048576, 1], %y: f32[2, 1]", "%d = pairwise_distance {} (%x, %y)"},
    {"%x: f32[1048576, 2]", "%y = score_transform {transform=softmax} (%x)"},
    {"%k: f32[524288, 3], %c: f32[1, 3], %r: f32[1]",
     "%y, %s = support_vector_vote {vectors_per_class=[1, 2]} (%k, %c, %r)"},
    {"%x: f32[1048576, 1]",
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
    {"%x: f32[2048, 2048]", "%y = transpose {permutation=[1, 0]} (%x)"},
    {"%x: f32[2048, 1]", "%y = expand {shape=shape(2048, 2048)} (%x)"},
    {"%x: f32[1]", "%y = expand {shape=shape(4194304)} (%x)"},
    {"%x: string[1]", "%y = expand {shape=shape(1048576)} (%x)"},
    {"%a: f32[2097152], %b: f32[2097152]", "%y = concat {axis=0} (%a, %b)"},
    {"%a: f32[1048576, 2], %b: f32[1048576, 2]", "%y = concat {axis=1} (%a, %b)"},
    {"%x: f32[4194304]", "%y = slice {axes=[0], starts=shape(1), counts=shape(4194302), steps=[1]} (%x)"},
    {"%x: f32[4194304]", "%y = slice {axes=[0], starts=shape(4194303), counts=shape(4194304), steps=[-1]} (%x)"},
    {"%x: u8[4194304]",
     "%q = cast {to=u4} (%x)\n%y = slice {axes=[0], starts=shape(1), counts=shape(4194303), steps=[1]} (%q)"},
    {"%x: f32[4194304]", "const %s: i64[1] = 1\nconst %e: i64[1] = 4194304\n%y = dynamic_slice {} (%x, %s, %e)"},
    {"%x: f32[2048, 2048]", "%y = pad {mode=reflect, pads=shape(0, 1, 0, 3)} (%x)"},
    {"%x: f32[4]", "%y = pad {mode=wrap, pads=shape(4194304, 4)} (%x)"},
    {"%x: f32[4, 3]", "const %i: i64[1048576] = 1\n%y = gather {axis=0} (%x, %i)"},
    {"%x: f32[2, 2097152]", "const %i: i64[2] = 1\n%y = gather {axis=0} (%x, %i)"},
    {"%x: f32[1048576, 3]", "const %i: i64[1048576, 3] = 1\n%y = gather_elements {axis=0} (%x, %i)"},
    {"%x: f32[4, 3]", "const %i: i64[1048576, 2] = 1\n%y = gather_nd {} (%x, %i)"},
    {"%x: f32[2, 2097152]", "const %i: i64[2, 1] = 1\n%y = gather_nd {} (%x, %i)"},
    {"%x: f32[4194304]",
     "%y = index_map {shape=shape(4194304), along=[0], steps=[1], starts=shape(2), wraps=true} (%x)"},
    {"%x: f32[4], %u: f32[1048576]", "const %i: i64[1048576, 1] = 1\n%y = scatter_nd {kind=add} (%x, %i, %u)"},
    {"%x: f32[2, 2097152], %u: f32[1, 2097152]", "const %i: i64[1, 1] = 1\n%y = scatter_nd {} (%x, %i, %u)"},
    {"%x: f32[4], %u: f32[1048576]", "const %i: i64[1048576] = 1\n%y = scatter_elements {kind=min} (%x, %i, %u)"},
    {"%x: f32[2, 1048576, 2], %u: f32[2, 1048570, 2]",
     "const %s: i64[2] = [0, 2]\n%y = tensor_scatter {} (%x, %u, %s)"},
    {"%x: f32[1048576, 2]", "const %n: i64[2] = [1048575, 1048576]\n%y = reverse_sequence {} (%x, %n)"},
    {"%x: f32[2, 2097152]", "const %n: i64[2097152] = 2\n%y = reverse_sequence {} (%x, %n)"},
    {"%x: f32[2, 2097152]", "const %a: i64[1] = 1\n%y = dynamic_reduce {kind=max, rank=2} (%x, %a)"},
    {"%x: f32[2, 2]", "const %r: i64[2] = [1048576, 1]\n%y = dynamic_tile {} (%x, %r)"},
    {"%x: f32[4194304]", "const %s: i64[2] = [2097152, 2097152]\n%a, %b = dynamic_split {axis=0} (%x, %s)"},
    {"%x: f32[2, 3]", "const %p: i64[4] = [0, 1, 1048576, 0]\n%y = dynamic_pad {} (%x, %p)"},
    {"%x: f32[1, 1, 2, 2]", "const %n: i64[2] = [2048, 2048]\n%y = dynamic_resize {axes=[2, 3]} (%x, -, -, %n)"},
    {"%x: f32[2048, 2048]", "%y = non_zero {} (%x)"},
    {"%x: f32[1048576]", "%y, %f, %i, %c = unique {} (%x)"},
    {"%x: string[1048576]", "%y, %f, %i, %c = unique {} (%x)"},
    {"%b: f32[1, 1048576, 4], %s: f32[1, 1, 1048576]", "const %m: i64[] = 2\n%y = non_max_suppression {} (%b, %s, %m)"},
    {"", R"(const %bins: i64[] = 4
            const %length: i64[] = 2097152
            const %rate: i64[] = 8000
            const %low: f32[] = 0
            const %high: f32[] = 4000
            %y = mel_weights {} (%bins, %length, %rate, %low, %high))"},
    {"", "const %a: i64[] = 0\nconst %b: i64[] = 4194304\nconst %c: i64[] = 1\n%y = range {} (%a, %b, %c)"},
    {"", "%y = random {shape=shape(2048, 2048)} ()"},
    {"%x: f32[2, 3]", "%y = multinomial {samples=1048576} (%x)"},
    {"%x: f32[2, 1048576]", "%y = multinomial {samples=1} (%x)"},
    {"%x: f32[1048576, 3]", "const %k: i64[3] = [30, 10, 20]\n%y = rows_to_maps {} (%x, %k)"},
    {"%x: f32[1048576]",
     "const %first: i64[] = 1048576\nconst %past: i64[] = 0\nconst %step: i64[] = -1\n"
     "%k = range {} (%first, %past, %step)\n%s = rows_to_maps {} (%x, %k)\nconst %i: i64[] = 0\n%m = sequence_at {} "
     "(%s, %i)\n%a, %b = map_entries {} (%m)"},
    {"", "const %x: i64[1048576] = 2\nconst %k: i64[3] = [1, 2, 3]\n%y = find_keys {} (%x, %k)"},
    {"%a: string[1048576], %b: string[1]", "%y = string_concat {} (%a, %b)"},
    {"%a: string[1048576, 1], %b: string[1048576, 1]", "%y = string_concat {} (%a, %b)"},
    {"%a: string[1048576]", "%y, %n = string_split {delimiter=\"a\"} (%a)"},
    {"%a: string[1048576]", "%y = string_normalize {change=upper} (%a)"},
    {"%a: string[1048576]", "%y = string_normalize {stop_words=[\"a\"]} (%a)"},
    {"%a: string[1048576]", "%y = regex_match {pattern=\"aa.*\"} (%a)"},
    {"%x: i64[1048576]", R"(const %grams: i64[3] = [1, 2, 3]
            const %columns: i64[3] = [0, 1, 2]
            const %weights: f32[3] = 1
            %y = count_terms {gram_counts=[3]} (%x, %grams, %columns, %weights))"},
    {"%x: i64[1048576, 1]", R"(const %grams: i64[3] = [1, 2, 3]
            const %columns: i64[3] = [0, 1, 2]
            const %weights: f32[3] = 1
            %y = count_terms {gram_counts=[3]} (%x, %grams, %columns, %weights))"},
    {"%a: string[1048576]", "%y = tokenize {token=\"[a-z]+\"} (%a)"},
    {"%x: f32[4194304]", "const %n: i64[] = 2097152\n%y = split_to_sequence {axis=0} (%x, %n)"},
    {"%a: f32[2097152], %b: f32[2097152]",
     "%s = sequence_construct {} (%a, %b)\n%y = concat_from_sequence {axis=0} (%s)"},
};

}  // namespace camshaft
