"""/v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them."""

from __future__ import annotations

from camshaft._errors import FileError, InvalidArgumentError, InvalidModelError, UnsupportedError
from camshaft.llm._lora_request import LoRARequest, NoLoraPlaceError
from camshaft.llm.openai._body import Body
from camshaft.llm.openai._errors import RequestError, overloaded
from camshaft.llm.openai._served import Served


def update_adapters(served: Served, body: Body, loads: bool) -> str:
    """The answer."""
    if not served.allows_updates:  # files of the server are read for whoever calls
        raise RequestError(
            "adapters are loaded and unloaded by calls where --allow-runtime-lora-updating says so", status=403
        )
    body.raw("model")
    name, path = body.text("lora_name"), body.text("lora_path") if loads else None
    body.raw("lora_int_id")
    body.finish()
    for field, value in (("lora_name", name), *((("lora_path", path),) if loads else ())):
        if not value:
            raise RequestError(f"'{field}' is missing", field)
    known = served.llm.list_loras()
    if loads and (name in known or name == served.name):
        raise RequestError(f"The lora adapter '{name}' has already been loaded.", "lora_name")
    if not loads and name not in known:
        raise RequestError(f"The lora adapter '{name}' cannot be found.", "lora_name", 404)
    try:
        if loads:
            served.llm.add_lora(LoRARequest(name, None, path or ""))
            return f"Success: LoRA adapter '{name}' added successfully."
        served.llm.remove_lora(name)
        return f"Success: LoRA adapter '{name}' removed successfully."
    except NoLoraPlaceError:
        raise overloaded() from None
    except (FileError, InvalidArgumentError, InvalidModelError, UnsupportedError) as error:
        raise RequestError(str(error), "lora_path" if loads else "lora_name") from None
