"""Bits that differ from the files, in any rank's part of a checkpoint: named before the first token.

    verify_test.py PROGRAM

Checkpoints: elements, codes of compressed-tensors and of GPTQ, blocks of GGUF; ranks as threads, and once as processes.
"""
import json
import random
import shutil
import struct
import subprocess

import launches
import test_folder
import tiny_model

TENSOR = "model.layers.1.mlp.down_proj.weight"  # its columns are divided, so each bit is on one rank
NORM = "model.layers.0.input_layernorm.weight"  # on every rank


def run(*words):
    """The finished program, stderr in stdout."""
    return subprocess.run([launches.PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=launches.DEADLINE, check=False,
                          env=launches.environment())


def write_safetensors(path, tensors):
    header, data = {}, bytearray()
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    return {name: (entry["dtype"], entry["shape"], data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in json.loads(data[8:begin]).items()}


def write_gptq(plain, folder):
    """The matrices of the layers with random codes: 4 bits in groups of 32."""
    numbers, tensors = random.Random(3), {}
    for name, (dtype, shape, values) in read_safetensors(plain / "model.safetensors").items():
        if "_proj" not in name:
            tensors[name] = (dtype, shape, values)
            continue
        module, (rows, columns) = name.removesuffix(".weight"), shape
        groups = columns // 32
        scales = struct.pack(f"<{groups * rows}e", *(numbers.uniform(0.01, 0.03) for _ in range(groups * rows)))
        tensors |= {f"{module}.qweight": ("I32", [columns // 8, rows], numbers.randbytes(columns // 8 * rows * 4)),
                    f"{module}.qzeros": ("I32", [groups, rows // 8], b"\x77" * (groups * rows // 2)),
                    f"{module}.scales": ("F16", [groups, rows], scales),
                    f"{module}.g_idx": ("I32", [columns], struct.pack(f"<{columns}i", *(k // 32 for k in range(columns))))}
    folder.mkdir()
    quantisation = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
    (folder / "config.json").write_text(json.dumps(tiny_model.CONFIG | {"quantization_config": quantisation}))
    write_safetensors(folder / "model.safetensors", tensors)
    return folder


def write_gguf(path):
    """The same shapes with random blocks Q8_0, and vectors of ones."""
    config, numbers = tiny_model.CONFIG, random.Random(5)
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
             "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
             "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    string = lambda text: struct.pack("<Q", len(text)) + text.encode()
    number = lambda value: struct.pack("<II", 4, value)
    keys = {"general.architecture": struct.pack("<I", 8) + string("llama"), "general.alignment": number(32),
            "llama.block_count": number(config["num_hidden_layers"]),
            "llama.context_length": number(config["max_position_embeddings"]),
            "llama.embedding_length": number(config["hidden_size"]),
            "llama.feed_forward_length": number(config["intermediate_size"]),
            "llama.attention.head_count": number(config["num_attention_heads"]),
            "llama.attention.head_count_kv": number(config["num_key_value_heads"]),
            "llama.vocab_size": number(config["vocab_size"]),
            "llama.rope.dimension_count": number(config["head_dim"]),
            "llama.rope.freq_base": struct.pack("<If", 6, config["rope_theta"]),
            "llama.attention.layer_norm_rms_epsilon": struct.pack("<If", 6, config["rms_norm_eps"])}
    header, data, tensors = bytearray(), bytearray(), tiny_model.shapes()
    for name, shape in tensors.items():
        stem = name.removesuffix(".weight")
        if stem.startswith("model.layers."):
            layer, _, leaf = stem.removeprefix("model.layers.").partition(".")
            stem = f"blk.{layer}.{names[leaf]}"
        else:
            stem = names[stem]
        kind = 8 if len(shape) == 2 else 0
        header += string(f"{stem}.weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, len(data))
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        if kind == 0:
            data += struct.pack(f"<{count}f", *[1.0] * count)
        for _ in range(count // 32 if kind else 0):
            data += struct.pack("<e", numbers.uniform(0.001, 0.004)) + numbers.randbytes(32)
        data += bytes(-len(data) % 32)
    begin = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    begin += b"".join(string(name) + value for name, value in keys.items()) + header
    path.write_bytes(begin + bytes(-len(begin) % 32) + data)
    return path


class Verify(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        plain = tiny_model.write(cls.folder / "plain")
        quantised = run("quantise", "--model", plain, "--weights", "q4:32", "--out", cls.folder / "q4")
        assert quantised.returncode == 0, quantised.stdout
        cls.models = {"plain": plain, "q4": cls.folder / "q4", "gptq": write_gptq(plain, cls.folder / "gptq"),
                      "gguf": write_gguf(cls.folder / "tiny.gguf")}
        (cls.folder / "prompts.json").write_text("[[5, 9, 23, 77, 3], [11, 4]]")
        for model in cls.models.values():
            written = run("verify", "--model", model, "--write")
            assert written.returncode == 0, written.stdout

    def copy_of(self, name):
        """A copy of a model with its sums, to be damaged."""
        source = self.models[name]
        copy = self.folder / self._testMethodName / source.name  # sums know the names of their files
        if source.is_dir():
            shutil.copytree(source, copy)
            return copy, copy / "model.safetensors", copy / "lockstep.sums.json"
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(source, copy)
        sums = copy.with_name(f"{copy.name}.sums.json")
        shutil.copy(f"{source}.sums.json", sums)
        return copy, copy, sums

    def generate(self, model, ranks, *more, launch="threads"):
        answer = self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        tokens = () if "--max-new-tokens" in more else ("--max-new-tokens", 4)
        done = run("generate", "--model", model, "--ids-file", self.folder / "prompts.json", "--ignore-eos",
                   "--no-do-sample", "--threads", 1, "--launch", launch, "--tp", ranks, "--json", answer, *tokens, *more)
        return done, json.loads(answer.read_text())["sequences"] if answer.exists() else None

    def refused(self, done, code, *words):
        self.assertEqual(done[0].returncode, code, done[0].stdout)
        for word in words:
            self.assertIn(word, done[0].stdout)
        self.assertIsNone(done[1])

    def test_every_degree_verifies_every_checkpoint(self):
        for name, model in self.models.items():
            self.assertRegex(run("verify", "--model", model).stdout, r"\d+ tensors of .* verified, as .*\.sums\.json")
            expected = None
            for ranks in (1, 2, 3):
                with self.subTest(model=name, ranks=ranks):
                    done, tokens = self.generate(model, ranks)
                    self.assertEqual(done.returncode, 0, done.stdout)
                    self.assertRegex(done.stdout, r"weights of the model: all \d+ tensors verified")
                    self.assertEqual(tokens, expected or tokens)
                    expected = tokens

    def test_a_flipped_bit_on_one_rank_is_named(self):
        for name, model in self.models.items():
            for ranks, rank in ((2, 1), (3, 2)):
                with self.subTest(model=name, ranks=ranks):
                    done = self.generate(model, ranks, "--fault", f"rank={rank},phase=load,kind=flip,tensor={TENSOR}")
                    self.refused(done, 4, f"rank {rank}: the weights of the model are not those of the files", TENSOR)

    def test_a_flipped_bit_of_a_process_is_named_by_all(self):
        done = self.generate(self.models["plain"], 2, "--fault", f"rank=1,phase=load,kind=flip,tensor={TENSOR}",
                             launch="processes")
        self.refused(done, 4, "rank 1: the weights of the model are not those of the files", TENSOR)

    def test_without_sums_ranks_compare_what_they_share_and_report_the_rest(self):
        for name in self.models:
            model, _, sums = self.copy_of(name)
            sums.unlink()
            with self.subTest(model=name):
                done, _ = self.generate(model, 2)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertRegex(done.stdout, r"weights of the model: \d+ tensors, \d+ equal on all ranks that hold them, "
                                              r"\d+ not verified \(lockstep verify --write")
                done = self.generate(model, 3, "--fault", f"rank=1,phase=load,kind=flip,tensor={NORM}")
                self.refused(done, 4, "rank 1: the weights of the model are not those of the files", NORM)

    def test_a_flipped_bit_in_a_file_is_named(self):
        for name in self.models:
            model, weights, _ = self.copy_of(name)
            data = bytearray(weights.read_bytes())
            data[-1000] ^= 1
            weights.write_bytes(data)
            with self.subTest(model=name):
                self.refused(self.generate(model, 2), 2, "have changed: found other values in the tensor")
                self.refused((run("verify", "--model", model), None), 2, "in 1 of", "fetch the weight files again")

    def test_sums_that_do_not_fit_are_refused_in_words(self):
        model, weights, sums = self.copy_of("plain")
        text = sums.read_text()
        for changed, words in (("", "lockstep.sums.json"), ("{}", 'expected "lockstep sums 1"'),
                               (text.replace('"float32":"', '"float32":"x', 1), "32 hexadecimal digits"),
                               (text.replace(TENSOR, "model.layers.9.up"), f"found no sum of {TENSOR}"),
                               (text.replace("[32,64]", "[64,32]", 1), "found no sum of")):
            sums.write_text(changed)
            with self.subTest(words=words):
                self.refused(self.generate(model, 2), 2, words)
        sums.write_text(text)
        tensors = read_safetensors(weights)
        write_safetensors(weights, dict(reversed(tensors.items())))
        self.refused(self.generate(model, 2), 2, "sums of other files", "--write --replace")

    def test_score_verifies_too(self):
        done = run("score", "--model", self.models["plain"], "--ids-file", self.folder / "prompts.json", "--launch",
                   "threads", "--tp", 2, "--fault", f"rank=0,phase=load,kind=flip,tensor={TENSOR}")
        self.refused((done, None), 4, "rank 0: the weights of the model are not those of the files")

    def test_a_bit_that_changes_in_memory_is_named_within_the_period(self):
        model, _, _ = self.copy_of("plain")
        (model / "config.json").write_text(json.dumps(tiny_model.CONFIG | {"max_position_embeddings": 1 << 20}))
        for rank in (0, 1):
            with self.subTest(rank=rank):
                done = self.generate(model, 2, "--max-new-tokens", 200000, "--check-weights-s", 0.2, "--fault",
                                     f"rank={rank},phase=decode,step=3000,kind=flip,tensor=lm_head.weight")
                self.refused(done, 4, f"rank {rank}: the weight lm_head.weight has changed in memory")


if __name__ == "__main__":
    launches.start_tests()
