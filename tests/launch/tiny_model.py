"""A tiny Llama with pseudo-random weights, written as a Hugging Face directory: config.json and model.safetensors, and a
tokenizer for those who want text."""
import json
import pathlib
import random
import struct

CONFIG = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 64, "hidden_act": "silu", "vocab_size": 128,
          "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
          "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}


def shapes():
    hidden, inner, vocabulary = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["vocab_size"]
    kv = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    found = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,),
             "lm_head.weight": (vocabulary, hidden)}
    for layer in range(CONFIG["num_hidden_layers"]):
        for name, shape in {
                "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "self_attn.q_proj": (hidden, hidden),
                "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden), "self_attn.o_proj": (hidden, hidden),
                "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
                "mlp.down_proj": (hidden, inner)}.items():
            found[f"model.layers.{layer}.{name}.weight"] = shape
    return found


def write(folder):
    """Writes the model into `folder`; the same values every time."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    numbers, header, data = random.Random(1), {}, bytearray()
    for name, shape in shapes().items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [1.0] * count if len(shape) == 1 else [numbers.uniform(-0.5, 0.5) for _ in range(count)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += struct.pack(f"<{count}f", *values)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


def write_tokenizer(folder):
    """Writes a tokenizer of the model's size into `folder`: a token for each printable character, and pairs of letters."""
    special = [{"id": number, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False} for number, text in enumerate(("<pad>", "<s>", "</s>"))]
    characters = ["\u0120", *map(chr, range(33, 127))]  # the first one is the blank, as byte-level vocabularies have it
    pairs = [first + second for first in "aeiou" for second in "bdlnrs"]
    tokens = [one["content"] for one in special] + characters + pairs
    tokens = tokens[:CONFIG["vocab_size"]]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": special, "normalizer": None, "post_processor": None, "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "merges": [],
                  "vocab": {text: number for number, text in enumerate(tokens)}}}))
