from turnwise.trainer.planning.learner_memory import LearnerMemory, Workload, largest_workload

from .planned_runs import run_config, small_shape

WORK = Workload(tokens=2048, trained_tokens=2048, is_split=True)


def test_weights_gradients_and_moments_take_16_bytes_per_parameter() -> None:
    shape = small_shape(vocabulary=200_000)
    parts = LearnerMemory(shape, run_config(), Workload(8, 8, is_split=True)).parts
    assert parts["weights"] == 4 * shape.parameters
    assert parts["optimizer"] == 8 * shape.parameters
    assert parts["gradients"] >= 4 * shape.parameters


def test_a_trust_region_keeps_one_more_copy_during_the_step() -> None:
    shape, work = small_shape(), Workload(8, 8, is_split=False)
    assert "trust region" not in LearnerMemory(shape, run_config(), work).parts
    parts = LearnerMemory(shape, run_config(learner={"max_kl": 0.01}), work).parts
    assert parts["trust region"] == parts["gradients"] == 4 * shape.parameters


def test_offloaded_moments_count_during_the_step_only() -> None:
    shape = small_shape()
    learner, warmup = {"device": "cuda", "optimizer_offload": True}, {"steps": 10}
    work = Workload(tokens=20_000, trained_tokens=20_000, is_split=True)
    without = run_config(learner=learner, sft_warmup={"steps": 0})
    assert "optimizer" not in LearnerMemory(shape, without, work).parts
    assert "optimizer" in LearnerMemory(shape, run_config(learner=learner, sft_warmup=warmup), work).parts
    at_step = LearnerMemory(shape, without, Workload(1, 1, is_split=False)).parts
    assert at_step["optimizer"] == 8 * shape.parameters


def test_ranks_share_what_lasts() -> None:
    shape = small_shape()
    alone = LearnerMemory(shape, run_config(), WORK).parts
    shared = LearnerMemory(shape, run_config(learner={"backend": "fsdp", "num_ranks": 4}), WORK).parts
    assert shared["weights"] == alone["weights"] // 4
    assert shared["optimizer"] == alone["optimizer"] // 4
    assert shared["gathered"] > 4 * shape.root_parameters


def test_checkpointing_and_bfloat16_save_activations() -> None:
    shape = small_shape()

    def activations(**learner: object) -> int:
        return LearnerMemory(shape, run_config(learner=learner), WORK).parts["activations"]

    assert activations(activation_checkpointing=True) < activations() / 2
    assert activations(dtype="bfloat16") < activations()


def test_a_reference_policy_is_one_more_model() -> None:
    loss = {"name": "decoupled_ppo", "reference_kl_coef": 0.1}
    parts = LearnerMemory(small_shape(), run_config(loss=loss), WORK).parts
    assert parts["other models"] == parts["weights"]


def test_the_largest_micro_batch_holds_a_full_context() -> None:
    config = run_config(horizon={"max_context": 4096}, learner={"max_tokens_per_micro_batch": 1024})
    assert largest_workload(config) == Workload(4096, 4096, is_split=True)
    whole = run_config(horizon={"max_context": 64}, learner={"max_tokens_per_micro_batch": 1 << 20})
    assert largest_workload(whole) == Workload(16 * 8 * 64, 16 * 8 * 64, is_split=False)


def test_an_adapter_alone_has_gradients_and_moments() -> None:
    shape = small_shape()
    parts = LearnerMemory(shape, run_config(learner={"lora": {"rank": 8}}), WORK).parts
    adapter = 4 * 8 * sum(inputs + outputs for inputs, outputs in shape.linear_layers)
    assert (parts["weights"], parts["optimizer"]) == (4 * (shape.parameters + adapter), 8 * adapter)
    assert parts["gradients"] == 4 * adapter


def test_an_adapter_in_bfloat16_halves_the_frozen_linear_layers() -> None:
    shape, lora = small_shape(), {"lora": {"rank": 8}}
    whole, half = (
        LearnerMemory(shape, run_config(learner=lora | {"dtype": dtype}), WORK).parts["weights"]
        for dtype in ("float32", "bfloat16")
    )
    assert whole - half == 2 * shape.layers * sum(inputs * outputs for inputs, outputs in shape.linear_layers)
