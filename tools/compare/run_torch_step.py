"""A decode step of a Llama in PyTorch, captured as a CUDA graph and replayed; the bar beside `lockstep bench --backend cuda`.

    run_torch_step.py SHAPE.json… [--capacity N] [--first-position N]

SHAPE.json is a config.json of a Llama. Random bfloat16 weights, batch 1, greedy. Prints one JSON object: of each shape
the median, least and largest microseconds of a replay, and what this GPU reaches: copies, sums and matrix products.
"""
import argparse
import json
import pathlib

import torch
import torch.nn.functional as F

BF16 = torch.bfloat16


def timed(work, repeats=20):
    """Microseconds of `work` by the GPU's events: median, least, most."""
    for _ in range(3):
        work()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        work()
        event.record()
    torch.cuda.synchronize()
    times = sorted(1e3 * a.elapsed_time(b) for a, b in zip(events, events[1:]))
    return times[repeats // 2], times[0], times[-1]


def random(*shape):
    return 0.02 * torch.randn(*shape, device="cuda", dtype=BF16)


def limits():
    a, b = random(8192, 8192), random(8192, 8192)
    found = {"product_tflops": [2e-6 * 8192**3 / us for us in timed(lambda: a @ b)]}
    x = torch.empty(2 << 30, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    found["copy_gb_per_s"] = [2e-3 * x.numel() / us for us in timed(lambda: y.copy_(x))]
    found["sum_gb_per_s"] = [1e-3 * x.numel() / us for us in timed(lambda: x.view(torch.int64).sum())]
    return found


class Step:
    """A decode step over static tensors: `token` and `position` go in and out."""

    def __init__(self, config, capacity, first_position):
        self.hidden, self.heads = config["hidden_size"], config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.head_dim = config.get("head_dim") or self.hidden // self.heads
        self.epsilon = config["rms_norm_eps"]
        inner, width = config["intermediate_size"], (self.heads + 2 * self.kv_heads) * self.head_dim
        cache = (1, self.kv_heads, capacity, self.head_dim)
        self.layers = [{"norm": random(self.hidden), "qkv": random(width, self.hidden),
                        "out": random(self.hidden, self.heads * self.head_dim), "inner_norm": random(self.hidden),
                        "gate_up": random(2 * inner, self.hidden), "down": random(self.hidden, inner),
                        "keys": random(*cache), "values": random(*cache)}
                       for _ in range(config["num_hidden_layers"])]
        self.table, self.norm = random(config["vocab_size"], self.hidden), random(self.hidden)
        steps = torch.arange(0, self.head_dim, 2, device="cuda").float() / self.head_dim
        angles = torch.arange(capacity, device="cuda").float()[:, None] / config["rope_theta"] ** steps
        self.cosines, self.sines = (torch.cat([f(angles)] * 2, -1).to(BF16) for f in (torch.cos, torch.sin))
        self.places = torch.arange(capacity, device="cuda")
        self.token = torch.zeros(1, device="cuda", dtype=torch.long)
        self.first_position = first_position
        self.position = torch.full((1,), first_position, device="cuda", dtype=torch.long)

    def normed(self, x, weight):
        return F.rms_norm(x, (self.hidden,), weight, self.epsilon)

    def turned(self, x):
        first, second = x.chunk(2, -1)
        return x * self.cosines[self.position] + torch.cat([-second, first], -1) * self.sines[self.position]

    def run(self):
        x = self.table[self.token]
        mask = (self.places <= self.position)[None, None, None]
        sizes = [self.heads * self.head_dim] + 2 * [self.kv_heads * self.head_dim]
        for layer in self.layers:
            q, k, v = F.linear(self.normed(x, layer["norm"]), layer["qkv"]).split(sizes, -1)
            layer["keys"].index_copy_(2, self.position, self.turned(k.view(1, self.kv_heads, 1, self.head_dim)))
            layer["values"].index_copy_(2, self.position, v.view(1, self.kv_heads, 1, self.head_dim))
            z = F.scaled_dot_product_attention(self.turned(q.view(1, self.heads, 1, self.head_dim)), layer["keys"],
                                               layer["values"], attn_mask=mask, enable_gqa=True)
            x = x + F.linear(z.reshape(1, -1), layer["out"])
            gate, up = F.linear(self.normed(x, layer["inner_norm"]), layer["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        self.token.copy_(F.linear(self.normed(x, self.norm), self.table).argmax(-1))
        self.position.add_(1)

    def captured(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.run()
        self.position.fill_(self.first_position)
        return graph


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="+", type=pathlib.Path, metavar="SHAPE.json")
    parser.add_argument("--capacity", type=int, default=1024, help="positions of the static cache")
    parser.add_argument("--first-position", type=int, default=32)
    options = parser.parse_args()
    found = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(0), **limits(), "step_us": {}}
    for shape in options.shapes:
        graph = Step(json.loads(shape.read_text()), options.capacity, options.first_position).captured()
        found["step_us"][shape.stem] = timed(graph.replay, 64)
        del graph
        torch.cuda.empty_cache()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
