"""Common parts of `lockstep compile` tests: a folder with a config.json, and the stand-in compiler's environment."""
import json
import os
import pathlib
import tempfile
import unittest

DEADLINE = 120  # seconds; of one command, on a busy machine


class CompileCase(unittest.TestCase):
    layers = 2

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.config = self.folder / "config.json"
        self.config.write_text(json.dumps({
            "model_type": "llama", "hidden_size": 16, "num_hidden_layers": self.layers, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 32, "hidden_act": "silu", "vocab_size": 64,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
            "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}))
        self.runs = self.folder / "runs"  # a line for each compilation that the stand-in started

    def environment(self, **variables):
        """This process's environment without the stand-in's variables and proxies, plus `variables`."""
        drop = ("STAND_IN_CC", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
        own = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
        return {**own, "STAND_IN_CC_LOG": str(self.runs), **variables}

    def begun(self):
        """The lines of all compilations so far."""
        return self.runs.read_text().splitlines() if self.runs.exists() else []
