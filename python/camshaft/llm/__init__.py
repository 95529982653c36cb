"""Language models: from a Hugging Face folder to an engine, and from prompts to text or embeddings.

    camshaft.llm.build("Llama-3.2-1B", "llama", weights="int4")    # writes llama/model.engine, llama/llm.json, …
    llm = camshaft.llm.LLM("llama")
    outputs = llm.generate(["Once upon a time"], camshaft.llm.SamplingParams(temperature=0, max_tokens=64))

docs/llm.md says what is read, and what the engine takes and gives in each step.

    camshaft.llm.build("whisper-small", "whisper")
    [result] = camshaft.llm.Whisper("whisper").transcribe("talk.wav")    # docs/llm_speech.md"""

from camshaft.llm._beam_search import BeamSearchOutput, BeamSearchParams, BeamSearchSequence
from camshaft.llm._build import build, network
from camshaft.llm._encoder_decoder import EncoderDecoderLLM
from camshaft.llm._llm import LLM
from camshaft.llm._lora_request import LoRARequest
from camshaft.llm._outputs import CompletionOutput, Logprob, RequestOutput
from camshaft.llm._pooling import EmbeddingOutput, EmbeddingRequestOutput, PoolingParams
from camshaft.llm._rank_start import run_rank
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._structured_outputs import StructuredOutputsParams
from camshaft.llm._tool_calls import ToolCallStream, parse_tool_calls, tool_choice_schema
from camshaft.llm._transcript import Segment, Transcription
from camshaft.llm._whisper import Whisper

__all__ = [
    "LLM",
    "BeamSearchOutput",
    "BeamSearchParams",
    "BeamSearchSequence",
    "CompletionOutput",
    "EmbeddingOutput",
    "EncoderDecoderLLM",
    "EmbeddingRequestOutput",
    "LoRARequest",
    "Logprob",
    "PoolingParams",
    "RequestOutput",
    "SamplingParams",
    "Segment",
    "StructuredOutputsParams",
    "ToolCallStream",
    "Transcription",
    "Whisper",
    "build",
    "network",
    "parse_tool_calls",
    "run_rank",
    "tool_choice_schema",
]
