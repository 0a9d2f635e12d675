"""Published runs: a row of a table as model, layout and cluster."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from simulator.cluster import Cluster, Gpu, get_cluster
from simulator.cluster.presets import HDR4, HDR8
from simulator.errors import UsageError
from simulator.planner.layout import PRECISIONS, Layout, Precision
from simulator.planner.model import Transformer

DATA = Path(__file__).parent / "data"
#: Share of the line rate that Ethernet and Omni-Path reach: stas00/ml-engineering on EFA v1, 340 of 400 Gb/s.
LINE_SHARE = 0.85


@dataclass(frozen=True)
class Run:
    """A published run. `step_time_s` is None where only `fits` is known."""

    id: str
    source: str
    model: Transformer
    layout: Layout
    cluster: Cluster
    step_time_s: float | None
    fits: bool | None


def read_runs(path: str | Path) -> list[Run]:
    """The rows of a CSV with the columns of data/validation.csv. Raises `UsageError` for a row that is not a run."""
    runs, problems = readable_runs(path)
    if problems:
        raise UsageError(f"{path}: {problems[0]}")
    return runs


def readable_runs(path: str | Path) -> tuple[list[Run], list[str]]:
    """The rows that can be modelled, and a sentence for each that cannot. Raises `UsageError` without a table."""
    try:
        with Path(path).open(newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    if not rows or "n_layers" not in rows[0]:
        raise UsageError(f"{path} is not a table of runs: it has no rows with a column n_layers")
    runs, problems = [], []
    for number, row in enumerate(rows, start=2):
        try:
            runs.append(run_of(defaultdict(str, {name: value or "" for name, value in row.items() if name})))
        except (UsageError, ValueError, ZeroDivisionError) as error:
            problems.append(f"line {number} ({row.get('id') or 'no id'}) cannot be modelled: {error}")
    return runs, problems


def run_of(row: Mapping[str, str]) -> Run:
    needed = ("num_gpus", "d_model", "seq_len", *(() if row["params_b"] else ("n_layers",)))
    if missing := [name for name in needed if not row[name]]:
        raise UsageError(f"{', '.join(missing)} not given")
    model = model_of(row)
    return Run(
        row["id"],
        row["source_id"],
        model,
        layout_of(row),
        cluster_of(row),
        _number(row, "target_step_time_s") or _number(row, "derived_step_time_s") or _number(row, "step_time_s"),
        {"1": True, "0": False}.get(row.get("fits", "")),
    )


def _number(row: Mapping[str, str], column: str) -> float | None:
    return float(row[column]) if row.get(column) else None


def _integer(row: Mapping[str, str], column: str, default: int = 1) -> int:
    return int(float(row[column])) if row.get(column) else default


def model_of(row: Mapping[str, str]) -> Transformer:
    heads = _integer(row, "n_heads") if row["n_heads"] else _usual_heads(row)
    attention, framework = row["attn_impl"].lower(), row["framework"].lower()
    megatron = "megatron" in framework
    unfused = "unfused" in attention or attention in (("torch", "fused", "") if megatron else ("torch", "fused"))
    model = Transformer(
        row["model"],
        layers=_integer(row, "n_layers"),
        d_model=_integer(row, "d_model"),
        heads=heads,
        kv_heads=_integer(row, "n_kv_heads", heads),
        d_ffn=_integer(row, "d_ffn", 4 * _integer(row, "d_model")),
        vocab=_integer(row, "vocab", 51200),
        seq_len=_integer(row, "seq_len"),
        gated="glu" in row["act"],
        tied=row["tied_emb"] == "yes",
        fused_attention=not unfused,
        fused_norms="glu" not in row["act"]
        or "rms kernel" in attention
        or "internevo" in framework
        or row["compile"] == "yes"
        or megatron,
        dropout=megatron and unfused,
    )
    if row["n_layers"]:
        return model
    pp = _integer(row, "pp")
    inside = float(row["params_b"]) * 1e9 - model.embedding_parameters - model.head_parameters
    return replace(model, layers=max(1, round(inside / model.layer_parameters / pp)) * pp)


def _usual_heads(row: Mapping[str, str]) -> int:
    """Heads of about 128 where the table names none: a number that tensor parallelism and the width allow."""
    width, tp = _integer(row, "d_model"), _integer(row, "tp")
    allowed = [heads for heads in range(tp, width + 1, tp) if width % heads == 0]
    return min(allowed, key=lambda heads: abs(width / heads - 128), default=1)


def layout_of(row: Mapping[str, str]) -> Layout:
    tp, pp, cp, chunks = (_integer(row, name) for name in ("tp", "pp", "cp", "vpp"))
    gpus = _integer(row, "num_gpus")
    dp = _integer(row, "dp", gpus // (tp * pp * cp))
    micro_batch = _integer(row, "micro_batch")
    accumulation = _integer(row, "grad_accum", max(1, _integer(row, "global_batch") // (dp * micro_batch)))
    zero = _zero_of(row)
    return Layout(
        dp=dp,
        tp=tp,
        pp=pp,
        cp=cp,
        zero=zero,
        shard_size=_integer(row, "dp_shard_size", 0) * cp if zero else 0,
        sequence_parallel=tp > 1 and _sequence_parallel(row),
        schedule="interleaved" if chunks > 1 else "1f1b",
        chunks=chunks,
        micro_batch=micro_batch,
        accumulation=accumulation,
        recompute=_recompute_of(row),
        precision=_precision_of(row, zero),
        overlap=_overlaps(row),
    )


def _sequence_parallel(row: Mapping[str, str]) -> bool:
    """What the table says, else the framework's default."""
    default = re.search("torchtitan|nanotron|kempner", row["framework"].lower()) is not None
    return {"yes": True, "no": False}.get(row["seq_par"], default)


def _zero_of(row: Mapping[str, str]) -> int:
    text = row["dp_sharding"].lower()
    if "zero3" in text or "fsdp" in text:
        return 3
    if found := re.search(r"zero(\d)", text):
        return int(found[1])
    return 1 if row["source_id"] == "alephalpha" or "AA-Scaling" in row["framework"] else 0


def _recompute_of(row: Mapping[str, str]) -> str:
    text = row["recompute"]
    if text.startswith("selective"):
        return "operators" if "op" in text.split() or text.startswith("selective-op") else "selective"
    return "full" if text.startswith("full") else "none"


def _precision_of(row: Mapping[str, str], zero: int) -> Precision:
    if zero == 3:
        return PRECISIONS["fp32-bf16-reduce" if "PURE" in row["precision"] else "fp32"]
    megatron_in_bf16 = "fp16" not in row["precision"] and re.search("megatron|nemo|nanotron", row["framework"].lower())
    return PRECISIONS["18" if megatron_in_bf16 else "16"]


def _overlaps(row: Mapping[str, str]) -> bool:
    """Megatron-LM of 2021 and Megatron-DeepSpeed reduce after the last backward; FSDP and InternEvo during it."""
    return "megatron" not in row["framework"].lower()


def cluster_of(row: Mapping[str, str]) -> Cluster:
    memory, kind = _number(row, "gpu_mem_gb") or 80.0, row["gpu"]
    base = get_cluster(
        "h200" if "H200" in kind else "h100" if "H" in kind else "a100-40gb" if memory < 60 else "a100-80gb"
    )
    gpu: Gpu = base.gpu
    if peak := _number(row, "peak_bf16_tflops"):
        gpu = replace(gpu, peak_flops={**gpu.peak_flops, "bfloat16": peak * 1e12, "float16": peak * 1e12})
    return _network(replace(base, gpu=gpu, gpus_per_node=_integer(row, "gpus_per_node", 8)), row["inter_node"])


def _network(cluster: Cluster, text: str) -> Cluster:
    """The fabric between nodes by what the table says of its ports; what it leaves out stays the preset's."""
    found = re.search(r"(\d+)\s*(?:[xX]|Omni-Path)\s*(\d+)\s*G", text)
    if not found or int(found[1]) * int(found[2]) >= 1600:
        return cluster  # not said, or of one port only, or a port of 200 Gb/s for each GPU: as the preset
    ports, gbits = int(found[1]), int(found[2])
    if ports * gbits == 800:
        return replace(cluster, inter_fabric=HDR4)
    port = gbits / 8 * LINE_SHARE
    rail = replace(cluster.inter, bandwidth_gbytes_per_s=min(cluster.inter.bandwidth_gbytes_per_s, port))
    fabric = replace(HDR8, name=text, bandwidth_gbytes_per_s=ports * port, measured=(), source="line rate")
    return replace(cluster, inter=rail, inter_fabric=fabric)
