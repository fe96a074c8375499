"""Both ends of the calls in calls.txt: the messages, the client's functions, the worker's handlers."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from header import Function, Header, Parameter

FIRST_GENERATED = 64  # kFirstGenerated in wire/protocol.h
_ROLE = re.compile(r"^(?P<name>[a-z0-9]+)(?:\((?P<argument>.*)\))?$")
_HANDLES = {
    "CUstream": "stream",
    "CUevent": "event",
    "CUmemoryPool": "pool",
}
_WIDTHS = {
    "unsigned int": "uint32_t",
    "int": "int32_t",
    "size_t": "uint64_t",
    "unsigned char": "uint8_t",
    "unsigned short": "uint16_t",
    "CUdeviceptr": "uint64_t",
    "CUdeviceptr_v2": "uint64_t",
    "CUlimit": "uint32_t",
    "CUfunc_cache": "uint32_t",
    "CUmemPool_attribute": "uint32_t",
    "unsigned long long": "uint64_t",
    "CUmemGenericAllocationHandle": "uint64_t",
}


class CallsError(Exception):
    """calls.txt says something that cuda.h does not bear out."""


@dataclass(frozen=True)
class Argument:
    parameter: Parameter
    role: str
    detail: str = ""

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def on_wire(self) -> str | None:
        """The type of the field that carries it to the worker; None for what only comes back."""
        if self.role == "out":
            return None
        return "uint64_t" if self.role != "number" else _WIDTHS[self.parameter.type]

    @property
    def pointee(self) -> str:
        return self.parameter.type.rstrip("* ")


@dataclass(frozen=True)
class Call:
    how: str
    function: Function
    arguments: tuple[Argument, ...]
    opcode: int
    per_thread: Function | None
    by_hand: frozenset[str] = field(default_factory=frozenset)
    capture: str = ""

    @property
    def symbol(self) -> str:
        return self.function.symbol

    @property
    def keeps(self) -> str:
        """What it makes the worker keep (worker/handlers.h)."""
        roles = {argument.role for argument in self.arguments}
        if "new" in roles:
            return "little"
        gives_back = "drop" in roles or self.symbol.startswith("cuMemFree")
        return "briefly" if self.how == "post" and not gives_back else "nothing"

    @property
    def names_stream(self) -> bool:
        return any(argument.role == "stream" for argument in self.arguments)

    @property
    def outs(self) -> list[Argument]:
        asked = self.how != "post"
        return [a for a in self.arguments if a.role == "out" or (a.role == "value8" and asked)]


def read_calls(text: str, header: Header) -> list[Call]:
    calls: list[Call] = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words:
            calls.append(_call(words, FIRST_GENERATED + len(calls), header))
    return calls


def _call(words: list[str], opcode: int, header: Header) -> Call:
    how, symbol, *settings = words
    if how not in ("post", "ask", "sync") or symbol not in header.functions:
        raise CallsError(f"calls.txt: cannot read {' '.join(words)}")
    function = header.functions[symbol]
    roles = dict(setting.split("=", 1) for setting in settings)
    by_hand = frozenset(side for side in ("client", "worker") if roles.pop(side, "") == "hand")
    capture = roles.pop("capture", "")
    if capture not in ("", "node", "refused"):
        raise CallsError(f"calls.txt: {symbol} cannot be {capture} in a capture")
    arguments = tuple(
        _argument(parameter, roles.pop(parameter.name, None)) for parameter in function.parameters
    )
    if roles:
        raise CallsError(f"calls.txt: {symbol} has no parameter {', '.join(roles)}")
    twins = (header.functions.get(symbol + suffix) for suffix in ("_ptds", "_ptsz"))
    return Call(how, function, arguments, opcode, next(filter(None, twins), None), by_hand, capture)


def _argument(parameter: Parameter, role: str | None) -> Argument:
    if role:
        match = _ROLE.match(role)
        if not match:
            raise CallsError(f"calls.txt: cannot read the role {role}")
        return Argument(parameter, match["name"], match["argument"] or "")
    if parameter.type in _HANDLES:
        return Argument(parameter, _HANDLES[parameter.type])
    if parameter.type not in _WIDTHS:
        raise CallsError(f"calls.txt: {parameter.declaration} needs a role")
    return Argument(parameter, "number")


def messages(calls: list[Call], text: str, banner: str) -> str:
    """calls_wire.h: opcodes and the payload of each call; fields in order of falling size leave no gaps.
    ``text`` is what both sides must have been made from."""
    lines = [banner, "#pragma once\n#include <cstdint>\n\nnamespace wire {\n\n"]
    digest = zlib.crc32(re.sub(r"\s+", " ", text).encode())
    lines.append(f"inline constexpr uint32_t kCallsDigest = {digest:#x};\n")
    lines.append("enum GeneratedOpcode : uint16_t {\n")
    lines += [f"    kOp_{call.symbol} = {call.opcode},\n" for call in calls]
    lines.append(f"    kEndOfOpcodes = {FIRST_GENERATED + len(calls)},\n}};\n\n#pragma pack(push, 1)\n")
    for call in calls:
        lines.append(f"struct {call.symbol}_message {{\n")
        lines += [f"    {a.on_wire} {a.name};\n" for a in call.arguments if a.on_wire]
        lines.append("};\n")
    lines.append("#pragma pack(pop)\n\n}  // namespace wire\n")
    return "".join(lines)


def message_fields(calls: list[Call], banner: str) -> str:
    """A string a call, for the fuzzer of frames: what each field is, or how many bytes a number has."""
    letters = {"stream": "s", "event": "e", "pool": "p", "device": "d", "value8": "8"}
    widths = {"uint64_t": "8", "uint32_t": "4", "int32_t": "4", "uint16_t": "2", "uint8_t": "1"}
    lines = [banner]
    for call in calls:
        fields = ((a.detail if a.role in ("new", "drop") else a.role, a.on_wire) for a in call.arguments)
        text = "".join(letters.get(role) or widths[wire] for role, wire in fields if wire)
        lines.append(f'"{text}",  // {call.symbol}\n')
    return "".join(lines)


def client(calls: list[Call], banner: str) -> str:
    """The exported functions of the client."""
    lines = [
        banner,
        '#include "call.h"\n#include "calls_wire.h"\n#include "capture_nodes.h"\n',
        '#include "shared_memory.h"\n\n',
    ]
    lines.append('using wire::pitched;\nusing wire::times;\n\nextern "C" {\n\n')
    for call in calls:
        if "client" in call.by_hand:
            continue
        lines.append(_client_function(call, call.function, "false"))
        if call.per_thread:
            lines.append(_client_function(call, call.per_thread, "true"))
    lines.append("}\n")
    return "".join(lines)


def _client_function(call: Call, form: Function, per_thread: str) -> str:
    # Both forms have the same parameters; their names in the header may differ.
    parameters = ", ".join(argument.parameter.declaration for argument in call.arguments) or "void"
    lines = [f"CUresult {form.symbol}({parameters}) {{\n    client::Call call;\n"]
    streams = [argument.name for argument in call.arguments if argument.role == "stream"]
    begin = f"begin_for({streams[0]})" if streams else "begin()"
    lines.append(f"    if (CUresult error = call.{begin}) return error;\n")
    lines.append(f"    wire::{call.symbol}_message message{{}};\n")
    for argument in call.arguments:
        name = argument.name
        if argument.role == "out":
            lines.append(f"    if (!{name}) return CUDA_ERROR_INVALID_VALUE;\n")
        elif argument.role == "stream":
            lines.append(f"    if (!call.stream({name}, {per_thread}, message.{name}))")
            lines.append(" return CUDA_ERROR_INVALID_HANDLE;\n")
        elif argument.role in ("event", "pool"):
            lines.append(f"    if (!call.{argument.role}({name}, message.{name}))")
            lines.append(" return CUDA_ERROR_INVALID_HANDLE;\n")
        else:
            lines.append(f"    message.{name} = {name};\n")
    lines += _in_capture(call, per_thread)
    uses_memory = [argument for argument in call.arguments if argument.role == "device"]
    for argument in uses_memory:
        reached = f"call.reach(message.{argument.name}, {_bytes(argument)})"
        lines.append(f"    if (CUresult error = {reached}) return error;\n")
    lines += [
        "    if (CUresult error = client::SharedMemory::get().to_device_for("
        f"call, message.{argument.name})) return error;\n"
        for argument in uses_memory
    ]
    flags = "wire::kPerThreadStream" if per_thread == "true" and not call.names_stream else "0"
    sent = f"wire::kOp_{call.symbol}, {flags}, &message, sizeof message"
    if call.how == "post" and uses_memory and not call.names_stream:
        # The host may look at memory that it shares with the device when the call returns.
        lines.append(f"    const CUresult result = call.post({sent});\n")
        seen = f"call.fill_visible(message.{uses_memory[0].name}, {per_thread})"
        lines.append(f"    return result == CUDA_SUCCESS ? {seen} : result;\n}}\n\n")
        return "".join(lines)
    if call.how == "post":
        lines.append(f"    return call.post({sent});\n}}\n\n")
        return "".join(lines)
    outs = call.outs
    if len(outs) > 1:
        raise CallsError(f"{call.symbol}: more than one value written back is not supported")
    back = f"{outs[0].name}, sizeof *{outs[0].name}" if outs else "nullptr, 0"
    ask = "synchronize" if call.how == "sync" else "ask"
    lines.append(f"    return call.{ask}({sent}, {back});\n}}\n\n")
    return "".join(lines)


def _in_capture(call: Call, per_thread: str) -> list[str]:
    """What the function does first while streams are captured; without a stream it uses the default one."""
    stream = next((a.name for a in call.arguments if a.role == "stream"), "nullptr")
    if call.capture == "refused":
        return [
            f"    if (CUresult error = client::refuse_captured({stream}, {per_thread})) return error;\n",
            "    if (CUresult error = client::refuse_unsafe()) return error;\n" if call.how == "sync" else "",
        ]
    if call.capture == "node":
        passed = ", ".join(a.name for a in call.arguments if a.role != "stream")
        return [
            f"    auto node = [&] {{ return client::node_of_{call.symbol}({passed}); }};\n",
            f"    if (auto answer = client::captured({stream}, {per_thread}, node)) return *answer;\n",
        ]
    return []


def worker(calls: list[Call], banner: str) -> str:
    """The handlers of the worker, and the table that finds them by opcode."""
    lines = [banner, '#include "handlers.h"\n#include "calls_wire.h"\n\nnamespace worker {\n\n']
    lines += [_worker_handler(call) for call in calls]
    lines.append("const Handler kGeneratedHandlers[] = {\n")
    for call in calls:
        how = {"post": "How::post", "ask": "How::ask", "sync": "How::sync"}[call.how]
        lines.append(f'    {{"{call.symbol}", {how}, handle_{call.symbol}, Keeps::{call.keeps}}},\n')
    lines.append("};\n\n}  // namespace worker\n")
    return "".join(lines)


def _worker_handler(call: Call) -> str:
    head = f"CUresult handle_{call.symbol}(Context& context, uint8_t frame_flags, wire::Reader& payload,"
    lines = [head + " wire::Writer& reply) {\n"]
    lines.append(f"    wire::{call.symbol}_message message;\n")
    if any(argument.on_wire for argument in call.arguments):
        lines.append("    if (!payload.take(message)) return kMalformed;\n")
    lines.append("    if (!payload.finished()) return kMalformed;\n")
    if "worker" in call.by_hand:
        lines.append(f"    return run_{call.symbol}(context, frame_flags, message, reply);\n}}\n\n")
        return "".join(lines)
    after: list[str] = []
    passed = []
    for argument in call.arguments:
        lines += _unpacked(argument, after)
        passed.append(argument.name if argument.role not in ("out", "new", "value8") else f"&{argument.name}")
    driver = "context.driver()"
    arguments = ", ".join(passed)
    plain = f"invoke({driver}.{call.symbol}{', ' if arguments else ''}{arguments})"
    if call.per_thread and not call.names_stream:
        twin = f"invoke({driver}.{call.per_thread.symbol}{', ' if arguments else ''}{arguments})"
        plain = f"frame_flags & wire::kPerThreadStream ? {twin} : {plain}"
        lines.append("    context.uses_default_stream(frame_flags & wire::kPerThreadStream);\n")
    lines.append(f"    CUresult result = {plain};\n")
    lines += after
    lines += [f"    reply.put({argument.name});\n" for argument in call.outs]
    lines.append("    return result;\n}\n\n")
    return "".join(lines)


def _bytes(argument: Argument) -> str:
    """What the role says of the bytes used, over the message's fields."""
    return re.sub(r"\b(?!times\b|pitched\b)([A-Za-z]\w*)", r"message.\1", argument.detail)


def _unpacked(argument: Argument, after: list[str]) -> list[str]:
    """Statements that make the driver's argument; what must follow the call goes to ``after``."""
    name, role, detail = argument.name, argument.role, argument.detail
    if role == "number":
        return [f"    const auto {name} = static_cast<{argument.parameter.type}>(message.{name});\n"]
    if role == "device":
        return [
            f"    const CUdeviceptr {name} = message.{name};\n"
            f"    if (!context.accessible({name}, {_bytes(argument)})) return CUDA_ERROR_INVALID_VALUE;\n"
        ]
    if role in ("stream", "event", "pool"):
        return [
            f"    {argument.parameter.type} {name};\n"
            f"    if (!context.{role}(message.{name}, {name})) return CUDA_ERROR_INVALID_HANDLE;\n"
        ]
    if role == "new":
        after.append(
            f"    if (result == CUDA_SUCCESS) result = context.add_{detail}(message.{name}, {name});\n"
        )
        return [
            f"    if (!context.may_add_{detail}(message.{name})) return kMalformed;\n"
            f"    {argument.pointee} {name}{{}};\n"
        ]
    if role == "drop":
        return [
            f"    {argument.parameter.type} {name};\n"
            f"    if (!context.drop_{detail}(message.{name}, {name})) return CUDA_ERROR_INVALID_HANDLE;\n"
        ]
    if role == "value8":
        return [f"    uint64_t {name} = message.{name};\n"]
    if role == "out":
        return [f"    {argument.pointee} {name}{{}};\n"]
    raise CallsError(f"calls.txt: unknown role {role}")


def handler_names(calls: list[Call], banner: str) -> str:
    """calls_by_hand.inc: the declarations that the worker's hand-written parts must match."""
    lines = [banner]
    for call in calls:
        if "worker" in call.by_hand:
            lines.append(
                f"CUresult run_{call.symbol}(Context& context, uint8_t frame_flags, "
                f"const wire::{call.symbol}_message& message, wire::Writer& reply);\n"
            )
    return "".join(lines)


def generate(header: Header, folder: Path, banner: str) -> dict[str, str]:
    """By file name; ``folder`` has calls.txt, and the maths libraries' lists and messages are beside it."""
    text = (folder / "calls.txt").read_text()
    calls = read_calls(text, header)
    lists = sorted(
        path for name in ("functions.txt", "messages.h") for path in folder.parent.glob(f"libraries/*/{name}")
    )
    return {
        "calls_wire.h": messages(calls, "".join([text, *(each.read_text() for each in lists)]), banner),
        "message_fields.inc": message_fields(calls, banner),
        "client_calls.cc": client(calls, banner),
        "worker_calls.cc": worker(calls, banner),
        "worker_by_hand.inc": handler_names(calls, banner),
    }
