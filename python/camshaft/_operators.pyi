"""The operators that networks have. Made by scripts/python_types.py from what the library says of itself."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

from camshaft._types import Body, DType, Names, Operand
from camshaft._values import Value

class OnnxOperators:
    def Abs(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Abs(X: T) -> (Y: T)"""
    def Acos(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Acos(input: T) -> (output: T)"""
    def Acosh(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Acosh(input: T) -> (output: T)"""
    def Add(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Add(A: T, B: T) -> (C: T)"""
    def AffineGrid(
        self,
        theta: Operand,
        size: Operand,
        *,
        align_corners: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """AffineGrid(theta: T1, size: T2) -> (grid: T1)"""
    def And(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """And(A: T, B: T) -> (C: T1)"""
    def ArgMax(
        self,
        data: Operand,
        *,
        axis: SupportsIndex | None = None,
        keepdims: SupportsIndex | None = None,
        select_last_index: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ArgMax(data: T) -> (reduced: tensor(int64))"""
    def ArgMin(
        self,
        data: Operand,
        *,
        axis: SupportsIndex | None = None,
        keepdims: SupportsIndex | None = None,
        select_last_index: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ArgMin(data: T) -> (reduced: tensor(int64))"""
    def Asin(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Asin(input: T) -> (output: T)"""
    def Asinh(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Asinh(input: T) -> (output: T)"""
    def Atan(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Atan(input: T) -> (output: T)"""
    def Atanh(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Atanh(input: T) -> (output: T)"""
    def Attention(
        self,
        Q: Operand,
        K: Operand,
        V: Operand,
        attn_mask: Operand | None = None,
        past_key: Operand | None = None,
        past_value: Operand | None = None,
        nonpad_kv_seqlen: Operand | None = None,
        *,
        is_causal: SupportsIndex | None = None,
        kv_num_heads: SupportsIndex | None = None,
        q_num_heads: SupportsIndex | None = None,
        qk_matmul_output_mode: SupportsIndex | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        softmax_precision: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """Attention(Q: T1, K: T1, V: T2, attn_mask?: U, past_key?: T1, past_value?: T2, nonpad_kv_seqlen?:
        tensor(int64)) -> (Y: T1, present_key?: T1, present_value?: T2, qk_matmul_output?: T1)"""
    def AveragePool(
        self,
        X: Operand,
        *,
        auto_pad: str | bytes | None = None,
        ceil_mode: SupportsIndex | None = None,
        count_include_pad: SupportsIndex | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        kernel_shape: Sequence[SupportsIndex],
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """AveragePool(X: T) -> (Y: T)"""
    def BatchNormalization(
        self,
        X: Operand,
        scale: Operand,
        B: Operand,
        input_mean: Operand,
        input_var: Operand,
        *,
        epsilon: float | None = None,
        momentum: float | None = None,
        training_mode: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """BatchNormalization(X: T, scale: T1, B: T1, input_mean: T2, input_var: T2) -> (Y: T, running_mean?: T2,
        running_var?: T2)"""
    def Bernoulli(
        self,
        input: Operand,
        *,
        dtype: DType | None = None,
        seed: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Bernoulli(input: T1) -> (output: T2)"""
    def BitCast(self, input: Operand, *, to: DType, name: str | None = None, outputs: Names = None) -> Value:
        """BitCast(input: T1) -> (output: T2)"""
    def BitShift(
        self, X: Operand, Y: Operand, *, direction: str | bytes, name: str | None = None, outputs: Names = None
    ) -> Value:
        """BitShift(X: T, Y: T) -> (Z: T)"""
    def BitwiseAnd(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """BitwiseAnd(A: T, B: T) -> (C: T)"""
    def BitwiseNot(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """BitwiseNot(X: T) -> (Y: T)"""
    def BitwiseOr(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """BitwiseOr(A: T, B: T) -> (C: T)"""
    def BitwiseXor(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """BitwiseXor(A: T, B: T) -> (C: T)"""
    def BlackmanWindow(
        self,
        size: Operand,
        *,
        output_datatype: SupportsIndex | None = None,
        periodic: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """BlackmanWindow(size: T1) -> (output: T2)"""
    def Cast(
        self,
        input: Operand,
        *,
        round_mode: str | bytes | None = None,
        saturate: SupportsIndex | None = None,
        to: DType,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Cast(input: T1) -> (output: T2)"""
    def CastLike(
        self,
        input: Operand,
        target_type: Operand,
        *,
        round_mode: str | bytes | None = None,
        saturate: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """CastLike(input: T1, target_type: T2) -> (output: T2)"""
    def CausalConvWithState(
        self,
        input: Operand,
        weight: Operand,
        bias: Operand | None = None,
        past_state: Operand | None = None,
        *,
        activation: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """CausalConvWithState(input: T, weight: T, bias?: T, past_state?: T) -> (output: T, present_state: T)"""
    def Ceil(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Ceil(X: T) -> (Y: T)"""
    def Celu(self, X: Operand, *, alpha: float | None = None, name: str | None = None, outputs: Names = None) -> Value:
        """Celu(X: T) -> (Y: T)"""
    def CenterCropPad(
        self,
        input_data: Operand,
        shape: Operand,
        *,
        axes: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """CenterCropPad(input_data: T, shape: Tind) -> (output_data: T)"""
    def Clip(
        self,
        input: Operand,
        min: Operand | None = None,
        max: Operand | None = None,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Clip(input: T, min?: T, max?: T) -> (output: T)"""
    def Col2Im(
        self,
        input: Operand,
        image_shape: Operand,
        block_shape: Operand,
        *,
        dilations: Sequence[SupportsIndex] | None = None,
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Col2Im(input: T, image_shape: tensor(int64), block_shape: tensor(int64)) -> (output: T)"""
    def Compress(
        self,
        input: Operand,
        condition: Operand,
        *,
        axis: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Compress(input: T, condition: T1) -> (output: T)"""
    def Concat(
        self, *inputs: Operand | None, axis: SupportsIndex, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Concat(inputs…: T) -> (concat_result: T)"""
    def ConcatFromSequence(
        self,
        input_sequence: Operand,
        *,
        axis: SupportsIndex,
        new_axis: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ConcatFromSequence(input_sequence: S) -> (concat_result: T)"""
    def Constant(
        self,
        *,
        sparse_value: Any | None = None,
        value: Operand | None = None,
        value_float: float | None = None,
        value_floats: Sequence[float] | None = None,
        value_int: SupportsIndex | None = None,
        value_ints: Sequence[SupportsIndex] | None = None,
        value_string: str | bytes | None = None,
        value_strings: Sequence[str | bytes] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Constant() -> (output: T)"""
    def ConstantOfShape(
        self, input: Operand, *, value: Operand | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """ConstantOfShape(input: T1) -> (output: T2)"""
    def Conv(
        self,
        X: Operand,
        W: Operand,
        B: Operand | None = None,
        *,
        auto_pad: str | bytes | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        group: SupportsIndex | None = None,
        kernel_shape: Sequence[SupportsIndex] | None = None,
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Conv(X: T, W: T, B?: T) -> (Y: T)"""
    def ConvInteger(
        self,
        x: Operand,
        w: Operand,
        x_zero_point: Operand | None = None,
        w_zero_point: Operand | None = None,
        *,
        auto_pad: str | bytes | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        group: SupportsIndex | None = None,
        kernel_shape: Sequence[SupportsIndex] | None = None,
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ConvInteger(x: T1, w: T2, x_zero_point?: T1, w_zero_point?: T2) -> (y: T3)"""
    def ConvTranspose(
        self,
        X: Operand,
        W: Operand,
        B: Operand | None = None,
        *,
        auto_pad: str | bytes | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        group: SupportsIndex | None = None,
        kernel_shape: Sequence[SupportsIndex] | None = None,
        output_padding: Sequence[SupportsIndex] | None = None,
        output_shape: Sequence[SupportsIndex] | None = None,
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ConvTranspose(X: T, W: T, B?: T) -> (Y: T)"""
    def Cos(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Cos(input: T) -> (output: T)"""
    def Cosh(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Cosh(input: T) -> (output: T)"""
    def CumProd(
        self,
        x: Operand,
        axis: Operand,
        *,
        exclusive: SupportsIndex | None = None,
        reverse: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """CumProd(x: T, axis: T2) -> (y: T)"""
    def CumSum(
        self,
        x: Operand,
        axis: Operand,
        *,
        exclusive: SupportsIndex | None = None,
        reverse: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """CumSum(x: T, axis: T2) -> (y: T)"""
    def DFT(
        self,
        input: Operand,
        dft_length: Operand | None = None,
        axis: Operand | None = None,
        *,
        inverse: SupportsIndex | None = None,
        onesided: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """DFT(input: T1, dft_length?: T2, axis?: tensor(int64)) -> (output: T1)"""
    def DeformConv(
        self,
        X: Operand,
        W: Operand,
        offset: Operand,
        B: Operand | None = None,
        mask: Operand | None = None,
        *,
        dilations: Sequence[SupportsIndex] | None = None,
        group: SupportsIndex | None = None,
        kernel_shape: Sequence[SupportsIndex] | None = None,
        offset_group: SupportsIndex | None = None,
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """DeformConv(X: T, W: T, offset: T, B?: T, mask?: T) -> (Y: T)"""
    def DepthToSpace(
        self,
        input: Operand,
        *,
        blocksize: SupportsIndex,
        mode: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """DepthToSpace(input: T) -> (output: T)"""
    def DequantizeLinear(
        self,
        x: Operand,
        x_scale: Operand,
        x_zero_point: Operand | None = None,
        *,
        axis: SupportsIndex | None = None,
        block_size: SupportsIndex | None = None,
        output_dtype: DType | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """DequantizeLinear(x: T1, x_scale: T2, x_zero_point?: T1) -> (y: T3)"""
    def Det(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Det(X: T) -> (Y: T)"""
    def Div(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Div(A: T, B: T) -> (C: T)"""
    def Dropout(
        self,
        data: Operand,
        ratio: Operand | None = None,
        training_mode: Operand | None = None,
        *,
        seed: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """Dropout(data: T, ratio?: T1, training_mode?: T2) -> (output: T, mask?: T2)"""
    def DynamicQuantizeLinear(self, x: Operand, *, name: str | None = None, outputs: Names = None) -> Any:
        """DynamicQuantizeLinear(x: T1) -> (y: T2, y_scale: tensor(float), y_zero_point: T2)"""
    def Einsum(
        self, *inputs: Operand | None, equation: str | bytes, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Einsum(Inputs…: T) -> (Output: T)"""
    def Elu(self, X: Operand, *, alpha: float | None = None, name: str | None = None, outputs: Names = None) -> Value:
        """Elu(X: T) -> (Y: T)"""
    def Equal(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Equal(A: T, B: T) -> (C: T1)"""
    def Erf(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Erf(input: T) -> (output: T)"""
    def Exp(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Exp(input: T) -> (output: T)"""
    def Expand(self, input: Operand, shape: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Expand(input: T, shape: tensor(int64)) -> (output: T)"""
    def EyeLike(
        self,
        input: Operand,
        *,
        dtype: DType | None = None,
        k: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """EyeLike(input: T1) -> (output: T2)"""
    def Flatten(
        self, input: Operand, *, axis: SupportsIndex | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Flatten(input: T) -> (output: T)"""
    def Floor(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Floor(X: T) -> (Y: T)"""
    def GRU(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand | None = None,
        sequence_lens: Operand | None = None,
        initial_h: Operand | None = None,
        *,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str | bytes] | None = None,
        clip: float | None = None,
        direction: str | bytes | None = None,
        hidden_size: SupportsIndex | None = None,
        layout: SupportsIndex | None = None,
        linear_before_reset: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """GRU(X: T, W: T, R: T, B?: T, sequence_lens?: T1, initial_h?: T) -> (Y?: T, Y_h?: T)"""
    def Gather(
        self,
        data: Operand,
        indices: Operand,
        *,
        axis: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Gather(data: T, indices: Tind) -> (output: T)"""
    def GatherElements(
        self,
        data: Operand,
        indices: Operand,
        *,
        axis: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """GatherElements(data: T, indices: Tind) -> (output: T)"""
    def GatherND(
        self,
        data: Operand,
        indices: Operand,
        *,
        batch_dims: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """GatherND(data: T, indices: tensor(int64)) -> (output: T)"""
    def Gelu(
        self, X: Operand, *, approximate: str | bytes | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Gelu(X: T) -> (Y: T)"""
    def Gemm(
        self,
        A: Operand,
        B: Operand,
        C: Operand | None = None,
        *,
        alpha: float | None = None,
        beta: float | None = None,
        transA: SupportsIndex | None = None,
        transB: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Gemm(A: T, B: T, C?: T) -> (Y: T)"""
    def GlobalAveragePool(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """GlobalAveragePool(X: T) -> (Y: T)"""
    def GlobalLpPool(
        self, X: Operand, *, p: SupportsIndex | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """GlobalLpPool(X: T) -> (Y: T)"""
    def GlobalMaxPool(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """GlobalMaxPool(X: T) -> (Y: T)"""
    def Greater(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Greater(A: T, B: T) -> (C: T1)"""
    def GreaterOrEqual(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """GreaterOrEqual(A: T, B: T) -> (C: T1)"""
    def GridSample(
        self,
        X: Operand,
        grid: Operand,
        *,
        align_corners: SupportsIndex | None = None,
        mode: str | bytes | None = None,
        padding_mode: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """GridSample(X: T1, grid: T2) -> (Y: T1)"""
    def GroupNormalization(
        self,
        X: Operand,
        scale: Operand,
        bias: Operand,
        *,
        epsilon: float | None = None,
        num_groups: SupportsIndex,
        stash_type: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """GroupNormalization(X: T, scale: T, bias: T) -> (Y: T)"""
    def HammingWindow(
        self,
        size: Operand,
        *,
        output_datatype: SupportsIndex | None = None,
        periodic: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """HammingWindow(size: T1) -> (output: T2)"""
    def HannWindow(
        self,
        size: Operand,
        *,
        output_datatype: SupportsIndex | None = None,
        periodic: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """HannWindow(size: T1) -> (output: T2)"""
    def HardSigmoid(
        self,
        X: Operand,
        *,
        alpha: float | None = None,
        beta: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """HardSigmoid(X: T) -> (Y: T)"""
    def HardSwish(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """HardSwish(X: T) -> (Y: T)"""
    def Hardmax(
        self, input: Operand, *, axis: SupportsIndex | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Hardmax(input: T) -> (output: T)"""
    def Identity(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Identity(input: V) -> (output: V)"""
    def If(
        self, cond: Operand, *, else_branch: Body, then_branch: Body, name: str | None = None, outputs: Names = None
    ) -> Any:
        """If(cond: B) -> (outputs…: V)"""
    def ImageDecoder(
        self,
        encoded_stream: Operand,
        *,
        pixel_format: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ImageDecoder(encoded_stream: T1) -> (image: T2)"""
    def InstanceNormalization(
        self,
        input: Operand,
        scale: Operand,
        B: Operand,
        *,
        epsilon: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """InstanceNormalization(input: T, scale: T, B: T) -> (output: T)"""
    def IsInf(
        self,
        X: Operand,
        *,
        detect_negative: SupportsIndex | None = None,
        detect_positive: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """IsInf(X: T1) -> (Y: T2)"""
    def IsNaN(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """IsNaN(X: T1) -> (Y: T2)"""
    def LRN(
        self,
        X: Operand,
        *,
        alpha: float | None = None,
        beta: float | None = None,
        bias: float | None = None,
        size: SupportsIndex,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """LRN(X: T) -> (Y: T)"""
    def LSTM(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand | None = None,
        sequence_lens: Operand | None = None,
        initial_h: Operand | None = None,
        initial_c: Operand | None = None,
        P: Operand | None = None,
        *,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str | bytes] | None = None,
        clip: float | None = None,
        direction: str | bytes | None = None,
        hidden_size: SupportsIndex | None = None,
        input_forget: SupportsIndex | None = None,
        layout: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """LSTM(X: T, W: T, R: T, B?: T, sequence_lens?: T1, initial_h?: T, initial_c?: T, P?: T) -> (Y?: T, Y_h?: T,
        Y_c?: T)"""
    def LayerNormalization(
        self,
        X: Operand,
        Scale: Operand,
        B: Operand | None = None,
        *,
        axis: SupportsIndex | None = None,
        epsilon: float | None = None,
        stash_type: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """LayerNormalization(X: T, Scale: T, B?: T) -> (Y: T, Mean?: U, InvStdDev?: U)"""
    def LeakyRelu(
        self, X: Operand, *, alpha: float | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """LeakyRelu(X: T) -> (Y: T)"""
    def Less(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Less(A: T, B: T) -> (C: T1)"""
    def LessOrEqual(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """LessOrEqual(A: T, B: T) -> (C: T1)"""
    def LinearAttention(
        self,
        query: Operand,
        key: Operand,
        value: Operand,
        past_state: Operand | None = None,
        decay: Operand | None = None,
        beta: Operand | None = None,
        *,
        chunk_size: SupportsIndex | None = None,
        kv_num_heads: SupportsIndex,
        q_num_heads: SupportsIndex,
        scale: float | None = None,
        update_rule: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """LinearAttention(query: T, key: T, value: T, past_state?: S, decay?: T, beta?: T) -> (output: T, present_state:
        S)"""
    def Log(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Log(input: T) -> (output: T)"""
    def LogSoftmax(
        self, input: Operand, *, axis: SupportsIndex | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """LogSoftmax(input: T) -> (output: T)"""
    def Loop(
        self,
        M: Operand | None = None,
        cond: Operand | None = None,
        *inputs: Operand | None,
        body: Body,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """Loop(M?: I, cond?: B, v_initial…: V) -> (v_final_and_scan_outputs…: V)"""
    def LpNormalization(
        self,
        input: Operand,
        *,
        axis: SupportsIndex | None = None,
        p: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """LpNormalization(input: T) -> (output: T)"""
    def LpPool(
        self,
        X: Operand,
        *,
        auto_pad: str | bytes | None = None,
        ceil_mode: SupportsIndex | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        kernel_shape: Sequence[SupportsIndex],
        p: SupportsIndex | None = None,
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """LpPool(X: T) -> (Y: T)"""
    def MatMul(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """MatMul(A: T, B: T) -> (Y: T)"""
    def MatMulInteger(
        self,
        A: Operand,
        B: Operand,
        a_zero_point: Operand | None = None,
        b_zero_point: Operand | None = None,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """MatMulInteger(A: T1, B: T2, a_zero_point?: T1, b_zero_point?: T2) -> (Y: T3)"""
    def Max(self, *inputs: Operand | None, name: str | None = None, outputs: Names = None) -> Value:
        """Max(data_0…: T) -> (max: T)"""
    def MaxPool(
        self,
        X: Operand,
        *,
        auto_pad: str | bytes | None = None,
        ceil_mode: SupportsIndex | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        kernel_shape: Sequence[SupportsIndex],
        pads: Sequence[SupportsIndex] | None = None,
        storage_order: SupportsIndex | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """MaxPool(X: T) -> (Y: T, Indices?: I)"""
    def MaxRoiPool(
        self,
        X: Operand,
        rois: Operand,
        *,
        pooled_shape: Sequence[SupportsIndex],
        spatial_scale: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """MaxRoiPool(X: T, rois: T) -> (Y: T)"""
    def MaxUnpool(
        self,
        X: Operand,
        I: Operand,
        output_shape: Operand | None = None,
        *,
        kernel_shape: Sequence[SupportsIndex],
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """MaxUnpool(X: T1, I: T2, output_shape?: T2) -> (output: T1)"""
    def Mean(self, *inputs: Operand | None, name: str | None = None, outputs: Names = None) -> Value:
        """Mean(data_0…: T) -> (mean: T)"""
    def MeanVarianceNormalization(
        self, X: Operand, *, axes: Sequence[SupportsIndex] | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """MeanVarianceNormalization(X: T) -> (Y: T)"""
    def MelWeightMatrix(
        self,
        num_mel_bins: Operand,
        dft_length: Operand,
        sample_rate: Operand,
        lower_edge_hertz: Operand,
        upper_edge_hertz: Operand,
        *,
        output_datatype: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """MelWeightMatrix(num_mel_bins: T1, dft_length: T1, sample_rate: T1, lower_edge_hertz: T2, upper_edge_hertz: T2)
        -> (output: T3)"""
    def Min(self, *inputs: Operand | None, name: str | None = None, outputs: Names = None) -> Value:
        """Min(data_0…: T) -> (min: T)"""
    def Mish(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Mish(X: T) -> (Y: T)"""
    def Mod(
        self,
        A: Operand,
        B: Operand,
        *,
        fmod: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Mod(A: T, B: T) -> (C: T)"""
    def Mul(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Mul(A: T, B: T) -> (C: T)"""
    def Multinomial(
        self,
        input: Operand,
        *,
        dtype: DType | None = None,
        sample_size: SupportsIndex | None = None,
        seed: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Multinomial(input: T1) -> (output: T2)"""
    def Neg(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Neg(X: T) -> (Y: T)"""
    def NegativeLogLikelihoodLoss(
        self,
        input: Operand,
        target: Operand,
        weight: Operand | None = None,
        *,
        ignore_index: SupportsIndex | None = None,
        reduction: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """NegativeLogLikelihoodLoss(input: T, target: Tind, weight?: T) -> (loss: T)"""
    def NonMaxSuppression(
        self,
        boxes: Operand,
        scores: Operand,
        max_output_boxes_per_class: Operand | None = None,
        iou_threshold: Operand | None = None,
        score_threshold: Operand | None = None,
        *,
        center_point_box: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """NonMaxSuppression(boxes: tensor(float), scores: tensor(float), max_output_boxes_per_class?: tensor(int64),
        iou_threshold?: tensor(float), score_threshold?: tensor(float)) -> (selected_indices: tensor(int64))"""
    def NonZero(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """NonZero(X: T) -> (Y: tensor(int64))"""
    def Not(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Not(X: T) -> (Y: T)"""
    def OneHot(
        self,
        indices: Operand,
        depth: Operand,
        values: Operand,
        *,
        axis: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """OneHot(indices: T1, depth: T2, values: T3) -> (output: T3)"""
    def Optional(
        self, input: Operand | None = None, *, type: str | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Optional(input?: V) -> (output: O)"""
    def OptionalGetElement(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """OptionalGetElement(input: O) -> (output: V)"""
    def OptionalHasElement(
        self, input: Operand | None = None, *, name: str | None = None, outputs: Names = None
    ) -> Value:
        """OptionalHasElement(input?: O) -> (output: B)"""
    def Or(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Or(A: T, B: T) -> (C: T1)"""
    def PRelu(self, X: Operand, slope: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """PRelu(X: T, slope: T) -> (Y: T)"""
    def Pad(
        self,
        data: Operand,
        pads: Operand,
        constant_value: Operand | None = None,
        axes: Operand | None = None,
        *,
        mode: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Pad(data: T, pads: tensor(int64), constant_value?: T, axes?: Tind) -> (output: T)"""
    def Pow(self, X: Operand, Y: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Pow(X: T, Y: T1) -> (Z: T)"""
    def QLinearConv(
        self,
        x: Operand,
        x_scale: Operand,
        x_zero_point: Operand,
        w: Operand,
        w_scale: Operand,
        w_zero_point: Operand,
        y_scale: Operand,
        y_zero_point: Operand,
        B: Operand | None = None,
        *,
        auto_pad: str | bytes | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        group: SupportsIndex | None = None,
        kernel_shape: Sequence[SupportsIndex] | None = None,
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearConv(x: T1, x_scale: tensor(float), x_zero_point: T1, w: T2, w_scale: tensor(float), w_zero_point: T2,
        y_scale: tensor(float), y_zero_point: T3, B?: T4) -> (y: T3)"""
    def QLinearMatMul(
        self,
        a: Operand,
        a_scale: Operand,
        a_zero_point: Operand,
        b: Operand,
        b_scale: Operand,
        b_zero_point: Operand,
        y_scale: Operand,
        y_zero_point: Operand,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearMatMul(a: T1, a_scale: TS, a_zero_point: T1, b: T2, b_scale: TS, b_zero_point: T2, y_scale: TS,
        y_zero_point: T3) -> (y: T3)"""
    def QuantizeLinear(
        self,
        x: Operand,
        y_scale: Operand,
        y_zero_point: Operand | None = None,
        *,
        axis: SupportsIndex | None = None,
        block_size: SupportsIndex | None = None,
        output_dtype: DType | None = None,
        precision: SupportsIndex | None = None,
        saturate: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QuantizeLinear(x: T1, y_scale: T2, y_zero_point?: T3) -> (y: T3)"""
    def RMSNormalization(
        self,
        X: Operand,
        scale: Operand,
        *,
        axis: SupportsIndex | None = None,
        epsilon: float | None = None,
        stash_type: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """RMSNormalization(X: T, scale: V) -> (Y: V)"""
    def RNN(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand | None = None,
        sequence_lens: Operand | None = None,
        initial_h: Operand | None = None,
        *,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str | bytes] | None = None,
        clip: float | None = None,
        direction: str | bytes | None = None,
        hidden_size: SupportsIndex | None = None,
        layout: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """RNN(X: T, W: T, R: T, B?: T, sequence_lens?: T1, initial_h?: T) -> (Y?: T, Y_h?: T)"""
    def RandomNormal(
        self,
        *,
        dtype: DType | None = None,
        mean: float | None = None,
        scale: float | None = None,
        seed: float | None = None,
        shape: Sequence[SupportsIndex],
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """RandomNormal() -> (output: T)"""
    def RandomNormalLike(
        self,
        input: Operand,
        *,
        dtype: DType | None = None,
        mean: float | None = None,
        scale: float | None = None,
        seed: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """RandomNormalLike(input: T1) -> (output: T2)"""
    def RandomUniform(
        self,
        *,
        dtype: DType | None = None,
        high: float | None = None,
        low: float | None = None,
        seed: float | None = None,
        shape: Sequence[SupportsIndex],
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """RandomUniform() -> (output: T)"""
    def RandomUniformLike(
        self,
        input: Operand,
        *,
        dtype: DType | None = None,
        high: float | None = None,
        low: float | None = None,
        seed: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """RandomUniformLike(input: T1) -> (output: T2)"""
    def Range(
        self,
        start: Operand,
        limit: Operand,
        delta: Operand,
        *,
        stash_type: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Range(start: T, limit: T, delta: T) -> (output: T)"""
    def Reciprocal(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Reciprocal(X: T) -> (Y: T)"""
    def ReduceL1(
        self,
        data: Operand,
        axes: Operand | None = None,
        *,
        keepdims: SupportsIndex | None = None,
        noop_with_empty_axes: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceL1(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    def ReduceL2(
        self,
        data: Operand,
        axes: Operand | None = None,
        *,
        keepdims: SupportsIndex | None = None,
        noop_with_empty_axes: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceL2(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    def ReduceLogSum(
        self,
        data: Operand,
        axes: Operand | None = None,
        *,
        keepdims: SupportsIndex | None = None,
        noop_with_empty_axes: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceLogSum(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    def ReduceLogSumExp(
        self,
        data: Operand,
        axes: Operand | None = None,
        *,
        keepdims: SupportsIndex | None = None,
        noop_with_empty_axes: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceLogSumExp(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    def ReduceMax(
        self,
        data: Operand,
        axes: Operand | None = None,
        *,
        keepdims: SupportsIndex | None = None,
        noop_with_empty_axes: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceMax(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    def ReduceMean(
        self,
        data: Operand,
        axes: Operand | None = None,
        *,
        keepdims: SupportsIndex | None = None,
        noop_with_empty_axes: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceMean(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    def ReduceMin(
        self,
        data: Operand,
        axes: Operand | None = None,
        *,
        keepdims: SupportsIndex | None = None,
        noop_with_empty_axes: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceMin(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    def ReduceProd(
        self,
        data: Operand,
        axes: Operand | None = None,
        *,
        keepdims: SupportsIndex | None = None,
        noop_with_empty_axes: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceProd(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    def ReduceSum(
        self,
        data: Operand,
        axes: Operand | None = None,
        *,
        keepdims: SupportsIndex | None = None,
        noop_with_empty_axes: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceSum(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    def ReduceSumSquare(
        self,
        data: Operand,
        axes: Operand | None = None,
        *,
        keepdims: SupportsIndex | None = None,
        noop_with_empty_axes: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceSumSquare(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    def RegexFullMatch(
        self, X: Operand, *, pattern: str | bytes | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """RegexFullMatch(X: T1) -> (Y: T2)"""
    def Relu(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Relu(X: T) -> (Y: T)"""
    def Reshape(
        self,
        data: Operand,
        shape: Operand,
        *,
        allowzero: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Reshape(data: T, shape: tensor(int64)) -> (reshaped: T)"""
    def Resize(
        self,
        X: Operand,
        roi: Operand | None = None,
        scales: Operand | None = None,
        sizes: Operand | None = None,
        *,
        antialias: SupportsIndex | None = None,
        axes: Sequence[SupportsIndex] | None = None,
        coordinate_transformation_mode: str | bytes | None = None,
        cubic_coeff_a: float | None = None,
        exclude_outside: SupportsIndex | None = None,
        extrapolation_value: float | None = None,
        keep_aspect_ratio_policy: str | bytes | None = None,
        mode: str | bytes | None = None,
        nearest_mode: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Resize(X: T1, roi?: T2, scales?: tensor(float), sizes?: tensor(int64)) -> (Y: T1)"""
    def ReverseSequence(
        self,
        input: Operand,
        sequence_lens: Operand,
        *,
        batch_axis: SupportsIndex | None = None,
        time_axis: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReverseSequence(input: T, sequence_lens: tensor(int64)) -> (Y: T)"""
    def RoiAlign(
        self,
        X: Operand,
        rois: Operand,
        batch_indices: Operand,
        *,
        coordinate_transformation_mode: str | bytes | None = None,
        mode: str | bytes | None = None,
        output_height: SupportsIndex | None = None,
        output_width: SupportsIndex | None = None,
        sampling_ratio: SupportsIndex | None = None,
        spatial_scale: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """RoiAlign(X: T1, rois: T1, batch_indices: T2) -> (Y: T1)"""
    def RotaryEmbedding(
        self,
        X: Operand,
        cos_cache: Operand,
        sin_cache: Operand,
        position_ids: Operand | None = None,
        *,
        interleaved: SupportsIndex | None = None,
        num_heads: SupportsIndex | None = None,
        rotary_embedding_dim: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """RotaryEmbedding(X: T, cos_cache: T, sin_cache: T, position_ids?: M) -> (Y: T)"""
    def Round(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Round(X: T) -> (Y: T)"""
    def STFT(
        self,
        signal: Operand,
        frame_step: Operand,
        window: Operand | None = None,
        frame_length: Operand | None = None,
        *,
        onesided: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """STFT(signal: T1, frame_step: T2, window?: T1, frame_length?: T2) -> (output: T1)"""
    def Scan(
        self,
        *inputs: Operand | None,
        body: Body,
        num_scan_inputs: SupportsIndex,
        scan_input_axes: Sequence[SupportsIndex] | None = None,
        scan_input_directions: Sequence[SupportsIndex] | None = None,
        scan_output_axes: Sequence[SupportsIndex] | None = None,
        scan_output_directions: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """Scan(initial_state_and_scan_inputs…: V) -> (final_state_and_scan_outputs…: V)"""
    def Scatter(
        self,
        data: Operand,
        indices: Operand,
        updates: Operand,
        *,
        axis: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Scatter(data: T, indices: Tind, updates: T) -> (output: T)"""
    def ScatterElements(
        self,
        data: Operand,
        indices: Operand,
        updates: Operand,
        *,
        axis: SupportsIndex | None = None,
        reduction: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ScatterElements(data: T, indices: Tind, updates: T) -> (output: T)"""
    def ScatterND(
        self,
        data: Operand,
        indices: Operand,
        updates: Operand,
        *,
        reduction: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ScatterND(data: T, indices: tensor(int64), updates: T) -> (output: T)"""
    def Selu(
        self,
        X: Operand,
        *,
        alpha: float | None = None,
        gamma: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Selu(X: T) -> (Y: T)"""
    def SequenceAt(
        self, input_sequence: Operand, position: Operand, *, name: str | None = None, outputs: Names = None
    ) -> Value:
        """SequenceAt(input_sequence: S, position: I) -> (tensor: T)"""
    def SequenceConstruct(self, *inputs: Operand | None, name: str | None = None, outputs: Names = None) -> Value:
        """SequenceConstruct(inputs…: T) -> (output_sequence: S)"""
    def SequenceEmpty(self, *, dtype: DType | None = None, name: str | None = None, outputs: Names = None) -> Value:
        """SequenceEmpty() -> (output: S)"""
    def SequenceErase(
        self,
        input_sequence: Operand,
        position: Operand | None = None,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """SequenceErase(input_sequence: S, position?: I) -> (output_sequence: S)"""
    def SequenceInsert(
        self,
        input_sequence: Operand,
        tensor: Operand,
        position: Operand | None = None,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """SequenceInsert(input_sequence: S, tensor: T, position?: I) -> (output_sequence: S)"""
    def SequenceLength(self, input_sequence: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """SequenceLength(input_sequence: S) -> (length: I)"""
    def SequenceMap(
        self,
        input_sequence: Operand,
        *inputs: Operand | None,
        body: Body,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """SequenceMap(input_sequence: S, additional_inputs…: V) -> (out_sequence…: S)"""
    def Shape(
        self,
        data: Operand,
        *,
        end: SupportsIndex | None = None,
        start: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Shape(data: T) -> (shape: T1)"""
    def Shrink(
        self,
        input: Operand,
        *,
        bias: float | None = None,
        lambd: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Shrink(input: T) -> (output: T)"""
    def Sigmoid(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Sigmoid(X: T) -> (Y: T)"""
    def Sign(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Sign(input: T) -> (output: T)"""
    def SimplifiedLayerNormalization(
        self,
        X: Operand,
        scale: Operand,
        *,
        axis: SupportsIndex | None = None,
        epsilon: float | None = None,
        stash_type: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """SimplifiedLayerNormalization(X: T, scale: V) -> (Y: V, inv_std_var?: U)"""
    def Sin(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Sin(input: T) -> (output: T)"""
    def Sinh(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Sinh(input: T) -> (output: T)"""
    def Size(self, data: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Size(data: T) -> (size: T1)"""
    def Slice(
        self,
        data: Operand,
        starts: Operand,
        ends: Operand,
        axes: Operand | None = None,
        steps: Operand | None = None,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Slice(data: T, starts: Tind, ends: Tind, axes?: Tind, steps?: Tind) -> (output: T)"""
    def Softmax(
        self, input: Operand, *, axis: SupportsIndex | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Softmax(input: T) -> (output: T)"""
    def SoftmaxCrossEntropyLoss(
        self,
        scores: Operand,
        labels: Operand,
        weights: Operand | None = None,
        *,
        ignore_index: SupportsIndex | None = None,
        reduction: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """SoftmaxCrossEntropyLoss(scores: T, labels: Tind, weights?: T) -> (output: T, log_prob?: T)"""
    def Softplus(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Softplus(X: T) -> (Y: T)"""
    def Softsign(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Softsign(input: T) -> (output: T)"""
    def SpaceToDepth(
        self, input: Operand, *, blocksize: SupportsIndex, name: str | None = None, outputs: Names = None
    ) -> Value:
        """SpaceToDepth(input: T) -> (output: T)"""
    def Split(
        self,
        input: Operand,
        split: Operand | None = None,
        *,
        axis: SupportsIndex | None = None,
        num_outputs: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """Split(input: T, split?: tensor(int64)) -> (outputs…: T)"""
    def SplitToSequence(
        self,
        input: Operand,
        split: Operand | None = None,
        *,
        axis: SupportsIndex | None = None,
        keepdims: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """SplitToSequence(input: T, split?: I) -> (output_sequence: S)"""
    def Sqrt(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Sqrt(X: T) -> (Y: T)"""
    def Squeeze(
        self, data: Operand, axes: Operand | None = None, *, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Squeeze(data: T, axes?: tensor(int64)) -> (squeezed: T)"""
    def StringConcat(self, X: Operand, Y: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """StringConcat(X: T, Y: T) -> (Z: T)"""
    def StringNormalizer(
        self,
        X: Operand,
        *,
        case_change_action: str | bytes | None = None,
        is_case_sensitive: SupportsIndex | None = None,
        locale: str | bytes | None = None,
        stopwords: Sequence[str | bytes] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """StringNormalizer(X: tensor(string)) -> (Y: tensor(string))"""
    def StringSplit(
        self,
        X: Operand,
        *,
        delimiter: str | bytes | None = None,
        maxsplit: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """StringSplit(X: T1) -> (Y: T2, Z: T3)"""
    def Sub(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Sub(A: T, B: T) -> (C: T)"""
    def Sum(self, *inputs: Operand | None, name: str | None = None, outputs: Names = None) -> Value:
        """Sum(data_0…: T) -> (sum: T)"""
    def Swish(self, X: Operand, *, alpha: float | None = None, name: str | None = None, outputs: Names = None) -> Value:
        """Swish(X: T) -> (Y: T)"""
    def Tan(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Tan(input: T) -> (output: T)"""
    def Tanh(self, input: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Tanh(input: T) -> (output: T)"""
    def TensorScatter(
        self,
        past_cache: Operand,
        update: Operand,
        write_indices: Operand | None = None,
        *,
        axis: SupportsIndex | None = None,
        mode: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """TensorScatter(past_cache: T, update: T, write_indices?: tensor(int64)) -> (present_cache: T)"""
    def TfIdfVectorizer(
        self,
        X: Operand,
        *,
        max_gram_length: SupportsIndex,
        max_skip_count: SupportsIndex,
        min_gram_length: SupportsIndex,
        mode: str | bytes,
        ngram_counts: Sequence[SupportsIndex],
        ngram_indexes: Sequence[SupportsIndex],
        pool_int64s: Sequence[SupportsIndex] | None = None,
        pool_strings: Sequence[str | bytes] | None = None,
        weights: Sequence[float] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """TfIdfVectorizer(X: T) -> (Y: T1)"""
    def ThresholdedRelu(
        self, X: Operand, *, alpha: float | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """ThresholdedRelu(X: T) -> (Y: T)"""
    def Tile(self, input: Operand, repeats: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Tile(input: T, repeats: T1) -> (output: T)"""
    def TopK(
        self,
        X: Operand,
        K: Operand,
        *,
        axis: SupportsIndex | None = None,
        largest: SupportsIndex | None = None,
        sorted: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """TopK(X: T, K: tensor(int64)) -> (Values: T, Indices: I)"""
    def Transpose(
        self,
        data: Operand,
        *,
        perm: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Transpose(data: T) -> (transposed: T)"""
    def Trilu(
        self,
        input: Operand,
        k: Operand | None = None,
        *,
        upper: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Trilu(input: T, k?: tensor(int64)) -> (output: T)"""
    def Unique(
        self,
        X: Operand,
        *,
        axis: SupportsIndex | None = None,
        sorted: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """Unique(X: T) -> (Y: T, indices?: tensor(int64), inverse_indices?: tensor(int64), counts?: tensor(int64))"""
    def Unsqueeze(self, data: Operand, axes: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Unsqueeze(data: T, axes: tensor(int64)) -> (expanded: T)"""
    def Upsample(
        self,
        X: Operand,
        scales: Operand,
        *,
        mode: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Upsample(X: T, scales: tensor(float)) -> (Y: T)"""
    def Where(
        self, condition: Operand, X: Operand, Y: Operand, *, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Where(condition: B, X: T, Y: T) -> (output: T)"""
    def Xor(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Xor(A: T, B: T) -> (C: T1)"""

class MlOperators:
    def ArrayFeatureExtractor(self, X: Operand, Y: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """ArrayFeatureExtractor(X: T, Y: tensor(int64)) -> (Z: T)"""
    def Binarizer(
        self, X: Operand, *, threshold: float | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Binarizer(X: T) -> (Y: T)"""
    def CastMap(
        self,
        X: Operand,
        *,
        cast_to: str | bytes | None = None,
        map_form: str | bytes | None = None,
        max_map: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """CastMap(X: T1) -> (Y: T2)"""
    def CategoryMapper(
        self,
        X: Operand,
        *,
        cats_int64s: Sequence[SupportsIndex] | None = None,
        cats_strings: Sequence[str | bytes] | None = None,
        default_int64: SupportsIndex | None = None,
        default_string: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """CategoryMapper(X: T1) -> (Y: T2)"""
    def DictVectorizer(
        self,
        X: Operand,
        *,
        int64_vocabulary: Sequence[SupportsIndex] | None = None,
        string_vocabulary: Sequence[str | bytes] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """DictVectorizer(X: T1) -> (Y: T2)"""
    def FeatureVectorizer(
        self,
        *inputs: Operand | None,
        inputdimensions: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """FeatureVectorizer(X…: T1) -> (Y: tensor(float))"""
    def Imputer(
        self,
        X: Operand,
        *,
        imputed_value_floats: Sequence[float] | None = None,
        imputed_value_int64s: Sequence[SupportsIndex] | None = None,
        replaced_value_float: float | None = None,
        replaced_value_int64: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Imputer(X: T) -> (Y: T)"""
    def LabelEncoder(
        self,
        X: Operand,
        *,
        default_float: float | None = None,
        default_int64: SupportsIndex | None = None,
        default_string: str | bytes | None = None,
        default_tensor: Operand | None = None,
        keys_floats: Sequence[float] | None = None,
        keys_int64s: Sequence[SupportsIndex] | None = None,
        keys_strings: Sequence[str | bytes] | None = None,
        keys_tensor: Operand | None = None,
        values_floats: Sequence[float] | None = None,
        values_int64s: Sequence[SupportsIndex] | None = None,
        values_strings: Sequence[str | bytes] | None = None,
        values_tensor: Operand | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """LabelEncoder(X: T1) -> (Y: T2)"""
    def LinearClassifier(
        self,
        X: Operand,
        *,
        classlabels_ints: Sequence[SupportsIndex] | None = None,
        classlabels_strings: Sequence[str | bytes] | None = None,
        coefficients: Sequence[float],
        intercepts: Sequence[float] | None = None,
        multi_class: SupportsIndex | None = None,
        post_transform: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """LinearClassifier(X: T1) -> (Y: T2, Z: tensor(float))"""
    def LinearRegressor(
        self,
        X: Operand,
        *,
        coefficients: Sequence[float] | None = None,
        intercepts: Sequence[float] | None = None,
        post_transform: str | bytes | None = None,
        targets: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """LinearRegressor(X: T) -> (Y: tensor(float))"""
    def Normalizer(
        self, X: Operand, *, norm: str | bytes | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """Normalizer(X: T) -> (Y: tensor(float))"""
    def OneHotEncoder(
        self,
        X: Operand,
        *,
        cats_int64s: Sequence[SupportsIndex] | None = None,
        cats_strings: Sequence[str | bytes] | None = None,
        zeros: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """OneHotEncoder(X: T) -> (Y: tensor(float))"""
    def SVMClassifier(
        self,
        X: Operand,
        *,
        classlabels_ints: Sequence[SupportsIndex] | None = None,
        classlabels_strings: Sequence[str | bytes] | None = None,
        coefficients: Sequence[float] | None = None,
        kernel_params: Sequence[float] | None = None,
        kernel_type: str | bytes | None = None,
        post_transform: str | bytes | None = None,
        prob_a: Sequence[float] | None = None,
        prob_b: Sequence[float] | None = None,
        rho: Sequence[float] | None = None,
        support_vectors: Sequence[float] | None = None,
        vectors_per_class: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """SVMClassifier(X: T1) -> (Y: T2, Z: tensor(float))"""
    def SVMRegressor(
        self,
        X: Operand,
        *,
        coefficients: Sequence[float] | None = None,
        kernel_params: Sequence[float] | None = None,
        kernel_type: str | bytes | None = None,
        n_supports: SupportsIndex | None = None,
        one_class: SupportsIndex | None = None,
        post_transform: str | bytes | None = None,
        rho: Sequence[float] | None = None,
        support_vectors: Sequence[float] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """SVMRegressor(X: T) -> (Y: tensor(float))"""
    def Scaler(
        self,
        X: Operand,
        *,
        offset: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Scaler(X: T) -> (Y: tensor(float))"""
    def TreeEnsemble(
        self,
        X: Operand,
        *,
        aggregate_function: SupportsIndex | None = None,
        leaf_targetids: Sequence[SupportsIndex],
        leaf_weights: Operand,
        membership_values: Operand | None = None,
        n_targets: SupportsIndex | None = None,
        nodes_falseleafs: Sequence[SupportsIndex],
        nodes_falsenodeids: Sequence[SupportsIndex],
        nodes_featureids: Sequence[SupportsIndex],
        nodes_hitrates: Operand | None = None,
        nodes_missing_value_tracks_true: Sequence[SupportsIndex] | None = None,
        nodes_modes: Operand,
        nodes_splits: Operand,
        nodes_trueleafs: Sequence[SupportsIndex],
        nodes_truenodeids: Sequence[SupportsIndex],
        post_transform: SupportsIndex | None = None,
        tree_roots: Sequence[SupportsIndex],
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """TreeEnsemble(X: T) -> (Y: T)"""
    def TreeEnsembleClassifier(
        self,
        X: Operand,
        *,
        base_values: Sequence[float] | None = None,
        base_values_as_tensor: Operand | None = None,
        class_ids: Sequence[SupportsIndex] | None = None,
        class_nodeids: Sequence[SupportsIndex] | None = None,
        class_treeids: Sequence[SupportsIndex] | None = None,
        class_weights: Sequence[float] | None = None,
        class_weights_as_tensor: Operand | None = None,
        classlabels_int64s: Sequence[SupportsIndex] | None = None,
        classlabels_strings: Sequence[str | bytes] | None = None,
        nodes_falsenodeids: Sequence[SupportsIndex] | None = None,
        nodes_featureids: Sequence[SupportsIndex] | None = None,
        nodes_hitrates: Sequence[float] | None = None,
        nodes_hitrates_as_tensor: Operand | None = None,
        nodes_missing_value_tracks_true: Sequence[SupportsIndex] | None = None,
        nodes_modes: Sequence[str | bytes] | None = None,
        nodes_nodeids: Sequence[SupportsIndex] | None = None,
        nodes_treeids: Sequence[SupportsIndex] | None = None,
        nodes_truenodeids: Sequence[SupportsIndex] | None = None,
        nodes_values: Sequence[float] | None = None,
        nodes_values_as_tensor: Operand | None = None,
        post_transform: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """TreeEnsembleClassifier(X: T1) -> (Y: T2, Z: tensor(float))"""
    def TreeEnsembleRegressor(
        self,
        X: Operand,
        *,
        aggregate_function: str | bytes | None = None,
        base_values: Sequence[float] | None = None,
        base_values_as_tensor: Operand | None = None,
        n_targets: SupportsIndex | None = None,
        nodes_falsenodeids: Sequence[SupportsIndex] | None = None,
        nodes_featureids: Sequence[SupportsIndex] | None = None,
        nodes_hitrates: Sequence[float] | None = None,
        nodes_hitrates_as_tensor: Operand | None = None,
        nodes_missing_value_tracks_true: Sequence[SupportsIndex] | None = None,
        nodes_modes: Sequence[str | bytes] | None = None,
        nodes_nodeids: Sequence[SupportsIndex] | None = None,
        nodes_treeids: Sequence[SupportsIndex] | None = None,
        nodes_truenodeids: Sequence[SupportsIndex] | None = None,
        nodes_values: Sequence[float] | None = None,
        nodes_values_as_tensor: Operand | None = None,
        post_transform: str | bytes | None = None,
        target_ids: Sequence[SupportsIndex] | None = None,
        target_nodeids: Sequence[SupportsIndex] | None = None,
        target_treeids: Sequence[SupportsIndex] | None = None,
        target_weights: Sequence[float] | None = None,
        target_weights_as_tensor: Operand | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """TreeEnsembleRegressor(X: T) -> (Y: tensor(float))"""
    def ZipMap(
        self,
        X: Operand,
        *,
        classlabels_int64s: Sequence[SupportsIndex] | None = None,
        classlabels_strings: Sequence[str | bytes] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ZipMap(X: tensor(float)) -> (Z: T)"""

class MicrosoftOperators:
    def Attention(
        self,
        input: Operand,
        weights: Operand,
        bias: Operand | None = None,
        mask_index: Operand | None = None,
        past: Operand | None = None,
        attention_bias: Operand | None = None,
        past_sequence_length: Operand | None = None,
        *,
        do_rotary: SupportsIndex | None = None,
        mask_filter_value: float | None = None,
        num_heads: SupportsIndex,
        past_present_share_buffer: SupportsIndex | None = None,
        qkv_hidden_sizes: Sequence[SupportsIndex] | None = None,
        rotary_embedding_dim: SupportsIndex | None = None,
        scale: float | None = None,
        unidirectional: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """Attention(input: T, weights: T, bias?: T, mask_index?: M, past?: T, attention_bias?: T, past_sequence_length?:
        M) -> (output: T, present?: T)"""
    def BiasAdd(
        self, X: Operand, bias: Operand, skip: Operand, *, name: str | None = None, outputs: Names = None
    ) -> Value:
        """BiasAdd(X: T, bias: T, skip: T) -> (Y: T)"""
    def BiasDropout(
        self,
        data: Operand,
        bias: Operand,
        residual: Operand | None = None,
        ratio: Operand | None = None,
        training_mode: Operand | None = None,
        *,
        seed: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """BiasDropout(data: T, bias: T, residual?: T, ratio?: T1, training_mode?: T2) -> (output: T, mask?: T2)"""
    def BiasGelu(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """BiasGelu(A: T, B: T) -> (C: T)"""
    def BiasSoftmax(
        self,
        data: Operand,
        bias: Operand,
        *,
        axis: SupportsIndex | None = None,
        is_inner_broadcast: SupportsIndex,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """BiasSoftmax(data: T, bias: T) -> (output: T)"""
    def BiasSplitGelu(self, X: Operand, bias: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """BiasSplitGelu(X: T, bias: T) -> (Y: T)"""
    def CDist(
        self,
        A: Operand,
        B: Operand,
        *,
        metric: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """CDist(A: T, B: T) -> (C: T)"""
    def ComplexMul(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """ComplexMul(A: T, B: T) -> (C: T)"""
    def ComplexMulConj(self, A: Operand, B: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """ComplexMulConj(A: T, B: T) -> (C: T)"""
    def DecoderMaskedMultiHeadAttention(
        self,
        query: Operand,
        key: Operand | None = None,
        value: Operand | None = None,
        mask_index: Operand | None = None,
        attention_bias: Operand | None = None,
        past_key: Operand | None = None,
        past_value: Operand | None = None,
        past_sequence_length: Operand | None = None,
        beam_width: Operand | None = None,
        cache_indirection: Operand | None = None,
        bias: Operand | None = None,
        *,
        mask_filter_value: float | None = None,
        num_heads: SupportsIndex,
        output_qk: SupportsIndex | None = None,
        past_present_share_buffer: SupportsIndex | None = None,
        scale: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """DecoderMaskedMultiHeadAttention(query: T, key?: T, value?: T, mask_index?: M, attention_bias?: T, past_key?:
        T, past_value?: T, past_sequence_length?: M, beam_width?: M, cache_indirection?: M, bias?: T) -> (output: T,
        present_key?: T, present_value?: T, qk?: QK)"""
    def DequantizeLinear(
        self,
        x: Operand,
        x_scale: Operand,
        x_zero_point: Operand | None = None,
        *,
        axis: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """DequantizeLinear(x: T1, x_scale: T2, x_zero_point?: T1) -> (y: T2)"""
    def DynamicQuantizeLSTM(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand | None = None,
        sequence_lens: Operand | None = None,
        initial_h: Operand | None = None,
        initial_c: Operand | None = None,
        P: Operand | None = None,
        W_scale: Operand | None = None,
        W_zero_point: Operand | None = None,
        R_scale: Operand | None = None,
        R_zero_point: Operand | None = None,
        *,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str | bytes] | None = None,
        clip: float | None = None,
        direction: str | bytes | None = None,
        hidden_size: SupportsIndex | None = None,
        input_forget: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """DynamicQuantizeLSTM(X: T, W: T2, R: T2, B?: T, sequence_lens?: T1, initial_h?: T, initial_c?: T, P?: T,
        W_scale: T, W_zero_point: T2, R_scale: T, R_zero_point: T2) -> (Y?: T, Y_h?: T, Y_c?: T)"""
    def DynamicQuantizeMatMul(
        self,
        A: Operand,
        B: Operand,
        b_scale: Operand,
        b_zero_point: Operand | None = None,
        bias: Operand | None = None,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """DynamicQuantizeMatMul(A: T1, B: T2, b_scale: T1, b_zero_point?: T2, bias?: T1) -> (Y: T1)"""
    def EmbedLayerNormalization(
        self,
        input_ids: Operand,
        segment_ids: Operand | None = None,
        word_embedding: Operand | None = None,
        position_embedding: Operand | None = None,
        segment_embedding: Operand | None = None,
        gamma: Operand | None = None,
        beta: Operand | None = None,
        mask: Operand | None = None,
        position_ids: Operand | None = None,
        *,
        epsilon: float | None = None,
        mask_index_type: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """EmbedLayerNormalization(input_ids: T1, segment_ids?: T1, word_embedding: T, position_embedding: T,
        segment_embedding?: T, gamma: T, beta: T, mask?: T1, position_ids?: T1) -> (output: T, mask_index?: T1,
        embedding_sum?: T)"""
    def ExpandDims(self, X: Operand, axis: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """ExpandDims(X: T, axis: tensor(int32)) -> (Y: T)"""
    def FastGelu(
        self, X: Operand, bias: Operand | None = None, *, name: str | None = None, outputs: Names = None
    ) -> Value:
        """FastGelu(X: T, bias?: T) -> (Y: T)"""
    def FusedConv(
        self,
        X: Operand,
        W: Operand,
        B: Operand | None = None,
        Z: Operand | None = None,
        *,
        activation: str | bytes | None = None,
        activation_params: Sequence[float] | None = None,
        auto_pad: str | bytes | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        group: SupportsIndex | None = None,
        kernel_shape: Sequence[SupportsIndex] | None = None,
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """FusedConv(X: T, W: T, B?: T, Z?: T) -> (Y: T)"""
    def FusedGemm(
        self,
        A: Operand,
        B: Operand,
        C: Operand | None = None,
        *,
        activation: str | bytes | None = None,
        activation_alpha: float | None = None,
        activation_beta: float | None = None,
        activation_gamma: float | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        transA: SupportsIndex | None = None,
        transB: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """FusedGemm(A: T, B: T, C?: T) -> (Y: T)"""
    def FusedMatMul(
        self,
        A: Operand,
        B: Operand,
        *,
        alpha: float | None = None,
        transA: SupportsIndex | None = None,
        transB: SupportsIndex | None = None,
        transBatchA: SupportsIndex | None = None,
        transBatchB: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """FusedMatMul(A: T, B: T) -> (Y: T)"""
    def FusedMatMulActivation(
        self,
        A: Operand,
        B: Operand,
        *,
        activation: str | bytes,
        activation_alpha: float | None = None,
        activation_axis: SupportsIndex | None = None,
        activation_beta: float | None = None,
        activation_gamma: float | None = None,
        alpha: float | None = None,
        transA: SupportsIndex | None = None,
        transB: SupportsIndex | None = None,
        transBatchA: SupportsIndex | None = None,
        transBatchB: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """FusedMatMulActivation(A: T, B: T) -> (Y: T)"""
    def GatherBlockQuantized(
        self,
        data: Operand,
        indices: Operand,
        scales: Operand,
        zero_points: Operand | None = None,
        *,
        bits: SupportsIndex | None = None,
        block_size: SupportsIndex | None = None,
        gather_axis: SupportsIndex | None = None,
        quantize_axis: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """GatherBlockQuantized(data: T1, indices: Tind, scales: T2, zero_points?: T1) -> (output: T2)"""
    def GatherND(self, data: Operand, indices: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """GatherND(data: T, indices: Tind) -> (output: T)"""
    def Gelu(self, X: Operand, *, name: str | None = None, outputs: Names = None) -> Value:
        """Gelu(X: T) -> (Y: T)"""
    def GemmFastGelu(
        self, X: Operand, W: Operand, bias: Operand | None = None, *, name: str | None = None, outputs: Names = None
    ) -> Value:
        """GemmFastGelu(X: T, W: T, bias?: T) -> (Y: T)"""
    def GridSample(
        self,
        X: Operand,
        Grid: Operand,
        *,
        align_corners: SupportsIndex | None = None,
        mode: str | bytes | None = None,
        padding_mode: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """GridSample(X: T1, Grid: T1) -> (Y: T2)"""
    def GroupNorm(
        self,
        X: Operand,
        gamma: Operand,
        beta: Operand,
        *,
        activation: SupportsIndex,
        channels_last: SupportsIndex | None = None,
        epsilon: float | None = None,
        groups: SupportsIndex,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """GroupNorm(X: T, gamma: M, beta: M) -> (Y: T)"""
    def GroupQueryAttention(
        self,
        query: Operand,
        key: Operand | None = None,
        value: Operand | None = None,
        past_key: Operand | None = None,
        past_value: Operand | None = None,
        seqlens_k: Operand | None = None,
        total_sequence_length: Operand | None = None,
        cos_cache: Operand | None = None,
        sin_cache: Operand | None = None,
        position_ids: Operand | None = None,
        attention_bias: Operand | None = None,
        head_sink: Operand | None = None,
        k_scale: Operand | None = None,
        v_scale: Operand | None = None,
        q_norm_weight: Operand | None = None,
        k_norm_weight: Operand | None = None,
        *,
        causal: SupportsIndex | None = None,
        do_rotary: SupportsIndex | None = None,
        k_quant_type: str | bytes | None = None,
        kv_cache_bit_width: SupportsIndex | None = None,
        kv_num_heads: SupportsIndex,
        local_window_size: SupportsIndex | None = None,
        num_heads: SupportsIndex,
        qk_norm_epsilon: float | None = None,
        qk_output: SupportsIndex | None = None,
        rotary_interleaved: SupportsIndex | None = None,
        scale: float | None = None,
        sliding_window_cache: SupportsIndex | None = None,
        smooth_softmax: SupportsIndex | None = None,
        softcap: float | None = None,
        v_quant_type: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """GroupQueryAttention(query: T, key?: T, value?: T, past_key?: T_CACHE, past_value?: T_CACHE, seqlens_k: M,
        total_sequence_length: M, cos_cache?: T, sin_cache?: T, position_ids?: tensor(int64), attention_bias?: T,
        head_sink?: T, k_scale?: T_KV_SCALE, v_scale?: T_KV_SCALE, q_norm_weight?: T, k_norm_weight?: T) -> (output:
        T, present_key?: T_CACHE, present_value?: T_CACHE, output_qk?: T)"""
    def IsAllFinite(
        self,
        *inputs: Operand | None,
        isinf_only: SupportsIndex | None = None,
        isnan_only: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """IsAllFinite(input…: V) -> (output: T)"""
    def MatMulBnb4(
        self,
        A: Operand,
        B: Operand,
        absmax: Operand,
        *,
        K: SupportsIndex,
        N: SupportsIndex,
        block_size: SupportsIndex,
        quant_type: SupportsIndex,
        training_mode: SupportsIndex | None = None,
        transB: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """MatMulBnb4(A: T1, B: T2, absmax: T1) -> (Y: T1)"""
    def MatMulIntegerToFloat(
        self,
        A: Operand,
        B: Operand,
        a_scale: Operand,
        b_scale: Operand,
        a_zero_point: Operand | None = None,
        b_zero_point: Operand | None = None,
        bias: Operand | None = None,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """MatMulIntegerToFloat(A: T1, B: T2, a_scale: T3, b_scale: T3, a_zero_point?: T1, b_zero_point?: T2, bias?: T3)
        -> (Y: T3)"""
    def MatMulNBits(
        self,
        A: Operand,
        B: Operand,
        scales: Operand,
        zero_points: Operand | None = None,
        g_idx: Operand | None = None,
        bias: Operand | None = None,
        *,
        K: SupportsIndex,
        N: SupportsIndex,
        accuracy_level: SupportsIndex | None = None,
        bits: SupportsIndex | None = None,
        block_size: SupportsIndex,
        weight_prepacked: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """MatMulNBits(A: T1, B: T2, scales: T1, zero_points?: T3, g_idx?: T4, bias?: T1) -> (Y: T1)"""
    def MultiHeadAttention(
        self,
        query: Operand,
        key: Operand | None = None,
        value: Operand | None = None,
        bias: Operand | None = None,
        key_padding_mask: Operand | None = None,
        attention_bias: Operand | None = None,
        past_key: Operand | None = None,
        past_value: Operand | None = None,
        past_sequence_length: Operand | None = None,
        cache_indirection: Operand | None = None,
        *,
        mask_filter_value: float | None = None,
        num_heads: SupportsIndex,
        scale: float | None = None,
        unidirectional: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """MultiHeadAttention(query: T, key?: T, value?: T, bias?: T, key_padding_mask?: M, attention_bias?: T,
        past_key?: T, past_value?: T, past_sequence_length?: M, cache_indirection?: M) -> (output: T, present_key?: T,
        present_value?: T, qk?: QK)"""
    def NhwcConv(
        self,
        X: Operand,
        W: Operand,
        B: Operand | None = None,
        *,
        auto_pad: str | bytes | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        group: SupportsIndex | None = None,
        kernel_shape: Sequence[SupportsIndex] | None = None,
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """NhwcConv(X: T, W: T, B?: T) -> (Y: T)"""
    def NhwcMaxPool(
        self,
        x: Operand,
        *,
        auto_pad: str | bytes | None = None,
        ceil_mode: SupportsIndex | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        kernel_shape: Sequence[SupportsIndex],
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """NhwcMaxPool(x: T) -> (y: T)"""
    def PackedMultiHeadAttention(
        self,
        query: Operand,
        key: Operand | None = None,
        value: Operand | None = None,
        bias: Operand | None = None,
        token_offset: Operand | None = None,
        cumulative_sequence_length: Operand | None = None,
        attention_bias: Operand | None = None,
        *,
        mask_filter_value: float | None = None,
        num_heads: SupportsIndex,
        scale: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """PackedMultiHeadAttention(query: T, key?: T, value?: T, bias?: T, token_offset: M, cumulative_sequence_length:
        M, attention_bias?: T) -> (output: T)"""
    def PagedAttention(
        self,
        query: Operand,
        key: Operand | None = None,
        value: Operand | None = None,
        key_cache: Operand | None = None,
        value_cache: Operand | None = None,
        cumulative_sequence_length: Operand | None = None,
        past_seqlens: Operand | None = None,
        block_table: Operand | None = None,
        cos_cache: Operand | None = None,
        sin_cache: Operand | None = None,
        slot_mapping: Operand | None = None,
        head_sink: Operand | None = None,
        q_norm_weight: Operand | None = None,
        k_norm_weight: Operand | None = None,
        k_scale: Operand | None = None,
        v_scale: Operand | None = None,
        attention_metadata: Operand | None = None,
        *,
        do_rotary: SupportsIndex | None = None,
        is_causal: SupportsIndex | None = None,
        k_cache_dtype: DType | None = None,
        k_quant_type: str | bytes | None = None,
        kv_cache_layout: str | bytes | None = None,
        kv_num_heads: SupportsIndex,
        local_window_size: SupportsIndex | None = None,
        num_heads: SupportsIndex,
        qk_norm_epsilon: float | None = None,
        rotary_interleaved: SupportsIndex | None = None,
        rotary_offset: SupportsIndex | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        v_cache_dtype: DType | None = None,
        v_head_size: SupportsIndex | None = None,
        v_quant_type: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """PagedAttention(query: T, key?: T, value?: T, key_cache: T_CACHE, value_cache?: T_CACHE,
        cumulative_sequence_length: S, past_seqlens: S, block_table: S, cos_cache?: T, sin_cache?: T, slot_mapping?:
        S, head_sink?: T, q_norm_weight?: T, k_norm_weight?: T, k_scale?: T_KV_SCALE, v_scale?: T_KV_SCALE,
        attention_metadata?: S) -> (output: T, key_cache_out?: T_CACHE, value_cache_out?: T_CACHE)"""
    def QAttention(
        self,
        input: Operand,
        weight: Operand,
        bias: Operand,
        input_scale: Operand,
        weight_scale: Operand,
        mask_index: Operand | None = None,
        input_zero_point: Operand | None = None,
        weight_zero_point: Operand | None = None,
        past: Operand | None = None,
        *,
        do_rotary: SupportsIndex | None = None,
        mask_filter_value: float | None = None,
        num_heads: SupportsIndex,
        past_present_share_buffer: SupportsIndex | None = None,
        scale: float | None = None,
        unidirectional: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """QAttention(input: T1, weight: T2, bias: T3, input_scale: T3, weight_scale: T3, mask_index?: T4,
        input_zero_point?: T1, weight_zero_point?: T2, past?: T3) -> (output: T3, present?: T3)"""
    def QGemm(
        self,
        A: Operand,
        a_scale: Operand,
        a_zero_point: Operand,
        B: Operand,
        b_scale: Operand,
        b_zero_point: Operand,
        C: Operand | None = None,
        y_scale: Operand | None = None,
        y_zero_point: Operand | None = None,
        *,
        alpha: float | None = None,
        transA: SupportsIndex | None = None,
        transB: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QGemm(A: TA, a_scale: T, a_zero_point: TA, B: TB, b_scale: T, b_zero_point: TB, C?: TC, y_scale?: T,
        y_zero_point?: TYZ) -> (Y: TY)"""
    def QLinearAdd(
        self,
        A: Operand,
        A_scale: Operand,
        A_zero_point: Operand | None = None,
        B: Operand | None = None,
        B_scale: Operand | None = None,
        B_zero_point: Operand | None = None,
        C_scale: Operand | None = None,
        C_zero_point: Operand | None = None,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearAdd(A: T, A_scale: tensor(float), A_zero_point?: T, B: T, B_scale: tensor(float), B_zero_point?: T,
        C_scale: tensor(float), C_zero_point?: T) -> (C: T)"""
    def QLinearAveragePool(
        self,
        X: Operand,
        x_scale: Operand,
        x_zero_point: Operand | None = None,
        y_scale: Operand | None = None,
        y_zero_point: Operand | None = None,
        *,
        auto_pad: str | bytes | None = None,
        ceil_mode: SupportsIndex | None = None,
        channels_last: SupportsIndex | None = None,
        count_include_pad: SupportsIndex | None = None,
        kernel_shape: Sequence[SupportsIndex],
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearAveragePool(X: T, x_scale: tensor(float), x_zero_point?: T, y_scale: tensor(float), y_zero_point?: T)
        -> (Y: T)"""
    def QLinearConcat(
        self,
        Y_scale: Operand,
        Y_zero_point: Operand,
        *inputs: Operand | None,
        axis: SupportsIndex,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearConcat(Y_scale: TF, Y_zero_point: T8, inputs…: TV) -> (Y: T8)"""
    def QLinearConv(
        self,
        x: Operand,
        x_scale: Operand,
        x_zero_point: Operand,
        w: Operand,
        w_scale: Operand,
        w_zero_point: Operand,
        y_scale: Operand,
        y_zero_point: Operand,
        B: Operand | None = None,
        *,
        auto_pad: str | bytes | None = None,
        channels_last: SupportsIndex | None = None,
        dilations: Sequence[SupportsIndex] | None = None,
        group: SupportsIndex | None = None,
        kernel_shape: Sequence[SupportsIndex] | None = None,
        pads: Sequence[SupportsIndex] | None = None,
        strides: Sequence[SupportsIndex] | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearConv(x: T1, x_scale: tensor(float), x_zero_point: T1, w: T2, w_scale: tensor(float), w_zero_point: T2,
        y_scale: tensor(float), y_zero_point: T3, B?: T4) -> (y: T3)"""
    def QLinearGlobalAveragePool(
        self,
        X: Operand,
        x_scale: Operand,
        x_zero_point: Operand,
        y_scale: Operand,
        y_zero_point: Operand,
        *,
        channels_last: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearGlobalAveragePool(X: T, x_scale: tensor(float), x_zero_point: T, y_scale: tensor(float), y_zero_point:
        T) -> (Y: T)"""
    def QLinearLeakyRelu(
        self,
        X: Operand,
        X_scale: Operand,
        X_zero_point: Operand | None = None,
        Y_scale: Operand | None = None,
        Y_zero_point: Operand | None = None,
        *,
        alpha: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearLeakyRelu(X: T, X_scale: tensor(float), X_zero_point?: T, Y_scale: tensor(float), Y_zero_point?: T) ->
        (Y: T)"""
    def QLinearMul(
        self,
        A: Operand,
        A_scale: Operand,
        A_zero_point: Operand | None = None,
        B: Operand | None = None,
        B_scale: Operand | None = None,
        B_zero_point: Operand | None = None,
        C_scale: Operand | None = None,
        C_zero_point: Operand | None = None,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearMul(A: T, A_scale: tensor(float), A_zero_point?: T, B: T, B_scale: tensor(float), B_zero_point?: T,
        C_scale: tensor(float), C_zero_point?: T) -> (C: T)"""
    def QLinearReduceMean(
        self,
        data: Operand,
        data_scale: Operand,
        data_zero_point: Operand | None = None,
        reduced_scale: Operand | None = None,
        reduced_zero_point: Operand | None = None,
        *,
        axes: Sequence[SupportsIndex],
        keepdims: SupportsIndex,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearReduceMean(data: T, data_scale: tensor(float), data_zero_point?: T, reduced_scale: tensor(float),
        reduced_zero_point?: T) -> (reduced: T)"""
    def QLinearSigmoid(
        self,
        X: Operand,
        X_scale: Operand,
        X_zero_point: Operand | None = None,
        Y_scale: Operand | None = None,
        Y_zero_point: Operand | None = None,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearSigmoid(X: T, X_scale: tensor(float), X_zero_point?: T, Y_scale: tensor(float), Y_zero_point?: T) ->
        (Y: T)"""
    def QLinearSoftmax(
        self,
        X: Operand,
        X_scale: Operand,
        x_zero_point: Operand | None = None,
        y_scale: Operand | None = None,
        y_zero_point: Operand | None = None,
        *,
        axis: SupportsIndex | None = None,
        opset: SupportsIndex,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearSoftmax(X: T, X_scale: tensor(float), x_zero_point?: T, y_scale: tensor(float), y_zero_point: T) -> (Y:
        T)"""
    def QLinearWhere(
        self,
        condition: Operand,
        X: Operand,
        x_scale: Operand,
        x_zero_point: Operand,
        Y: Operand,
        y_scale: Operand,
        y_zero_point: Operand,
        z_scale: Operand,
        z_zero_point: Operand,
        *,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QLinearWhere(condition: B, X: T, x_scale: TF, x_zero_point: T, Y: T, y_scale: TF, y_zero_point: T, z_scale:
        TF, z_zero_point: T) -> (Z: T)"""
    def QuantizeLinear(
        self,
        x: Operand,
        y_scale: Operand,
        y_zero_point: Operand | None = None,
        *,
        axis: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """QuantizeLinear(x: T1, y_scale: T1, y_zero_point?: T2) -> (y: T2)"""
    def QuickGelu(
        self, X: Operand, *, alpha: float | None = None, name: str | None = None, outputs: Names = None
    ) -> Value:
        """QuickGelu(X: T) -> (Y: T)"""
    def ReduceSumInteger(
        self,
        data: Operand,
        *,
        axes: Sequence[SupportsIndex],
        keepdims: SupportsIndex,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """ReduceSumInteger(data: T1) -> (reduced: T2)"""
    def RotaryEmbedding(
        self,
        input: Operand,
        position_ids: Operand,
        cos_cache: Operand,
        sin_cache: Operand,
        *,
        interleaved: SupportsIndex | None = None,
        is_packed_batching: SupportsIndex | None = None,
        num_heads: SupportsIndex | None = None,
        rotary_embedding_dim: SupportsIndex | None = None,
        scale: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """RotaryEmbedding(input: T, position_ids: M, cos_cache: T, sin_cache: T) -> (output: T)"""
    def SkipGroupNorm(
        self,
        X: Operand,
        gamma: Operand,
        beta: Operand,
        skip: Operand,
        bias: Operand | None = None,
        *,
        activation: SupportsIndex,
        channels_last: SupportsIndex | None = None,
        epsilon: float | None = None,
        groups: SupportsIndex,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """SkipGroupNorm(X: T, gamma: M, beta: M, skip: T, bias?: T) -> (Y: T, S?: T)"""
    def SkipLayerNormalization(
        self,
        input: Operand,
        skip: Operand,
        gamma: Operand,
        beta: Operand | None = None,
        bias: Operand | None = None,
        *,
        epsilon: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """SkipLayerNormalization(input: T, skip: T, gamma: T, beta?: T, bias?: T) -> (output: T, mean?: U, inv_std_var?:
        U, input_skip_bias_sum?: T)"""
    def SkipSimplifiedLayerNormalization(
        self,
        input: Operand,
        skip: Operand,
        gamma: Operand,
        bias: Operand | None = None,
        *,
        epsilon: float | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Any:
        """SkipSimplifiedLayerNormalization(input: T, skip: T, gamma: T, bias?: T) -> (output: T, mean?: U, inv_std_var?:
        U, input_skip_bias_sum?: T)"""
    def Tokenizer(
        self,
        X: Operand,
        *,
        mark: SupportsIndex,
        mincharnum: SupportsIndex,
        pad_value: str | bytes,
        separators: Sequence[str | bytes] | None = None,
        tokenexp: str | bytes | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Tokenizer(X: T) -> (Y: T)"""
    def TransposeMatMul(
        self,
        A: Operand,
        B: Operand,
        *,
        alpha: float | None = None,
        transA: SupportsIndex | None = None,
        transB: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """TransposeMatMul(A: T, B: T) -> (Y: T)"""
    def Trilu(
        self,
        X: Operand,
        k: Operand | None = None,
        *,
        upper: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """Trilu(X: T, k?: tensor(int64)) -> (Y: T)"""
    def UnfoldTensor(
        self,
        input: Operand,
        *,
        dim: SupportsIndex | None = None,
        size: SupportsIndex,
        step: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """UnfoldTensor(input: T) -> (output: T)"""

class PreviewOperators:
    def FlexAttention(
        self,
        Q: Operand,
        K: Operand,
        V: Operand,
        *,
        prob_mod: Body | None = None,
        scale: float | None = None,
        score_mod: Body | None = None,
        softmax_precision: SupportsIndex | None = None,
        name: str | None = None,
        outputs: Names = None,
    ) -> Value:
        """FlexAttention(Q: T1, K: T1, V: T1) -> (Y: T1)"""
