"""Simulate training steps of a transformer on one rank: pipeline schedule, layers, gradients, optimizer."""

from collections.abc import Iterator

from job_simulator.process import COMPUTE, COPY, Event, Message, Process

MICROSECOND = 1_000
GEMM = "nvjet_tst_{}_64x4_2x1_v_bz_coopA_{}"
"""By tile and layout of the matrices."""
ATTENTION = "void pytorch_flash::flash_{}_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >"
NORM = "void at::native::(anonymous namespace)::{}<float, c10::BFloat16>(int, float, c10::BFloat16 const*)"
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{}<c10::BFloat16>, std::array<char*, 2ul> >"
)
OPTIMIZER = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor<float, 4> >"
)

ACTIVATION_ELEMENTS, BUCKET_ELEMENTS, TOKEN_ELEMENTS = 4_194_304, 25_165_824, 2_097_152
ALL_REDUCE = Message("allreduce", ACTIVATION_ELEMENTS, 62 * MICROSECOND)
BUCKET = Message("allreduce", BUCKET_ELEMENTS, 410 * MICROSECOND)
GATHER = Message("_allgather_base", BUCKET_ELEMENTS, 230 * MICROSECOND)
SCATTER = Message("_reduce_scatter_base", BUCKET_ELEMENTS, 240 * MICROSECOND)
NORM_OF_GRADIENTS = Message("allreduce", 1, 24 * MICROSECOND, "Float")
LOSS = Message("allreduce", 1, 21 * MICROSECOND, "Float")
TOKENS = Message("all_to_all", TOKEN_ELEMENTS, 48 * MICROSECOND)
SEND = Message("send", ACTIVATION_ELEMENTS, 36 * MICROSECOND)
RECEIVE = Message("recv", ACTIVATION_ELEMENTS, 36 * MICROSECOND)


class Training:
    """The program of one rank: `steps` of forward and backward passes in the order of 1F1B, then the optimizer."""

    def __init__(self, process: Process) -> None:
        self.process, self.job, self.rank = process, process.job, process.rank
        self.stage = self.job.stage(self.rank)
        self.is_last = self.stage == self.job.pipeline - 1
        self.data = self.job.group(self.rank, "DATA_PARALLEL_GROUP")
        self.tensor = self.job.group(self.rank, "TENSOR_MODEL_PARALLEL_GROUP")
        self.pipeline = self.job.group(self.rank, "PIPELINE_MODEL_PARALLEL_GROUP")
        self.world = self.job.group(self.rank, "default_pg")
        self.sequence = 411
        self.sequences: dict[int, list[int]] = {}
        self.reduced: list[Event] = []
        self.sent: list[Event] = []

    def run(self) -> None:
        """Build all steps."""
        process = self.process
        for step in range(self.job.steps):
            process.begin_step(step)
            with process.op(f"ProfilerStep#{step + 5}", "user_annotation"):
                self._load_batch()
                process.pause()
                for action, microbatch in schedule(self.stage, self.job.pipeline, self.job.microbatches_per_step):
                    process.phase = (action, microbatch)
                    (self._forward if action == "forward" else self._backward)(microbatch)
                    process.work(9 * MICROSECOND)
                process.phase = None
                self._finish_gradients()
                self._optimize()
                self._report()

    def _load_batch(self) -> None:
        process = self.process
        with process.op("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "user_annotation"):
            process.load_batch(180 * MICROSECOND)
        with process.op("aten::to"), process.op("aten::_to_copy"), process.op("aten::copy_"):
            process.copy("HtoD", ("Pinned", "Device"), 1_048_576, COPY)
        process.wait_event(COMPUTE, process.record_event(COPY))

    def _forward(self, microbatch: int) -> None:
        process = self.process
        first = self.sequence
        if self.stage:
            received = process.exchange(self.pipeline, RECEIVE, self._neighbor(-1))
            process.wait_event(COMPUTE, received)
        gathered = self._gather_parameters()
        for layer in range(self.job.layers):
            gathered = self._next_parameters(layer, gathered)
            self._forward_layer()
        if self.is_last:
            self._op("aten::cross_entropy_loss", [("softmax_warp_forward", NORM, 31)])
        self.sequences[microbatch] = list(range(first + 1, self.sequence + 1))
        if not self.is_last:
            self.sent.append(process.exchange(self.pipeline, SEND, self._neighbor(1)))

    def _forward_layer(self) -> None:
        share = self.job.tensor
        self._op("aten::native_layer_norm", [("vectorized_layer_norm_kernel", NORM, 14)])
        self._op("aten::linear", [("192x192", GEMM, 148 // share)])
        self._op("aten::scaled_dot_product_attention", [("fwd", ATTENTION, 166 // share)])
        self._op("aten::linear", [("128x128", GEMM, 58 // share)])
        self._reduce_activations()
        self._op("aten::native_layer_norm", [("vectorized_layer_norm_kernel", NORM, 14)])
        self._exchange_tokens()
        self._op("aten::linear", [("256x128", GEMM, 196 // share)])
        self._op("aten::gelu", [("GeluCUDAKernelImpl", ELEMENTWISE, 33 // share)])
        self._op("aten::linear", [("192x208", GEMM, 190 // share)])
        self._exchange_tokens()
        self._reduce_activations()

    def _gather_parameters(self) -> Event | None:
        """Gather the parameters of a layer, where the ranks of a data group hold a share each."""
        is_sharded = self.job.sharded and len(self.data.ranks) > 1
        return self.process.collective(self.data, GATHER) if is_sharded else None

    def _next_parameters(self, layer: int, gathered: Event | None) -> Event | None:
        """Wait for a layer's parameters, and gather those of the next one beside its computation."""
        if gathered is None:
            return None
        following = self._gather_parameters() if layer + 1 < self.job.layers else None
        self.process.wait_event(COMPUTE, gathered)
        return following

    def _op(self, name: str, kernels: list[tuple[str, str, int]]) -> None:
        """Run a differentiable op."""
        self.sequence += 1
        with self.process.op(name, args={"Sequence number": self.sequence, "Fwd thread id": 0}) as op:
            op.flow = (self.sequence, "s")
            self.process.work(3 * MICROSECOND)
            for kernel, template, us in kernels:
                self.process.kernel(template.format(kernel, "TNT"), us * MICROSECOND)
        self.process.work(2 * MICROSECOND)

    def _reduce_activations(self) -> None:
        if len(self.tensor.ranks) > 1:
            reduced = self.process.collective(self.tensor, ALL_REDUCE)
            self.process.wait_event(COMPUTE, reduced)

    def _exchange_tokens(self) -> None:
        if self.job.expert > 1:
            group = self.job.group(self.rank, "EXPERT_MODEL_PARALLEL_GROUP")
            self.process.wait_event(COMPUTE, self.process.collective(group, TOKENS))

    def _backward(self, microbatch: int) -> None:
        process = self.process
        if not self.is_last:
            received = process.exchange(self.pipeline, RECEIVE, self._neighbor(1))
            process.wait_event(COMPUTE, received)
        sequences = self.sequences.pop(microbatch)
        is_final = microbatch == self.job.microbatches_per_step - 1
        with process.autograd():
            if self.is_last:
                self._node("LogSoftmaxBackward0", sequences, [("softmax_warp_backward", NORM, 27)])
            gathered = self._gather_parameters()
            for layer in range(self.job.layers):
                gathered = self._next_parameters(layer, gathered)
                self._backward_layer(sequences)
                if is_final and len(self.data.ranks) > 1:
                    self.reduced.append(process.collective(self.data, SCATTER if self.job.sharded else BUCKET))
        if self.stage:
            self.sent.append(process.exchange(self.pipeline, SEND, self._neighbor(-1)))

    def _backward_layer(self, sequences: list[int]) -> None:
        share = self.job.tensor
        self._exchange_tokens()
        self._node("MmBackward0", sequences, [("208x192", GEMM, 192 // share), ("192x176", GEMM, 188 // share)])
        self._node("GeluBackward0", sequences, [("GeluBackwardCUDAKernelImpl", ELEMENTWISE, 38 // share)])
        self._node("MmBackward0", sequences, [("208x192", GEMM, 197 // share), ("192x176", GEMM, 194 // share)])
        self._exchange_tokens()
        self._reduce_activations()
        self._node("NativeLayerNormBackward0", sequences, [("layer_norm_grad_input_kernel", NORM, 24)])
        self._node("MmBackward0", sequences, [("208x192", GEMM, 57 // share), ("192x176", GEMM, 56 // share)])
        self._node("ScaledDotProductFlashAttentionBackward0", sequences, [("bwd", ATTENTION, 402 // share)])
        self._node("MmBackward0", sequences, [("208x192", GEMM, 149 // share), ("192x176", GEMM, 146 // share)])
        self._reduce_activations()
        self._node("NativeLayerNormBackward0", sequences, [("layer_norm_grad_input_kernel", NORM, 24)])

    def _node(self, name: str, sequences: list[int], kernels: list[tuple[str, str, int]]) -> None:
        """Run a node of the backward pass for the last forward op that has none yet."""
        sequence = sequences.pop()
        args: dict[str, object] = {"Sequence number": sequence, "Fwd thread id": 1}
        evaluate = self.process.op(f"autograd::engine::evaluate_function: {name}", args=args)
        with evaluate, self.process.op(name, args=dict(args)) as op:
            op.flow = (sequence, "f")
            for kernel, template, us in kernels:
                self.process.kernel(template.format(kernel, "NNT"), us * MICROSECOND)

    def _finish_gradients(self) -> None:
        process = self.process
        for event in [*self.sent, *self.reduced]:
            process.wait_event(COMPUTE, event)
        self.sent, self.reduced = [], []
        if len(self.world.ranks) > 1:
            with process.op("aten::linalg_vector_norm"):
                process.kernel(NORM.format("reduce_kernel", ""), 42 * MICROSECOND)
            process.wait_event(COMPUTE, process.collective(self.world, NORM_OF_GRADIENTS))

    def _optimize(self) -> None:
        process = self.process
        with process.op("Optimizer.step#AdamW.step", "user_annotation"), process.op("aten::_fused_adamw_"):
            process.work(24 * MICROSECOND)
            for _ in range(self.job.layers):
                process.kernel(OPTIMIZER, 118 * MICROSECOND)
        with process.op("Optimizer.zero_grad#AdamW.zero_grad", "user_annotation"), process.op("aten::zero_"):
            process.fill(4 * BUCKET_ELEMENTS)

    def _report(self) -> None:
        """Average the loss, bring it to the host, and wait for all that the device has to do."""
        process = self.process
        if len(self.world.ranks) > 1:
            process.wait_event(COMPUTE, process.collective(self.world, LOSS))
        with process.op("aten::item"), process.op("aten::_local_scalar_dense"):
            process.copy("DtoH", ("Device", "Pageable"), 4)
            process.synchronize(COMPUTE)
        process.synchronize()

    def _neighbor(self, distance: int) -> int:
        return self.pipeline.ranks[self.stage + distance]


def schedule(stage: int, stages: int, microbatches: int) -> Iterator[tuple[str, int]]:
    """Yield what a stage does with each microbatch in the order of 1F1B (Narayanan et al., SC 2021)."""
    warm_up = min(stages - 1 - stage, microbatches)
    for microbatch in range(warm_up):
        yield "forward", microbatch
    for microbatch in range(microbatches - warm_up):
        yield "forward", warm_up + microbatch
        yield "backward", microbatch
    for microbatch in range(microbatches - warm_up, microbatches):
        yield "backward", microbatch
