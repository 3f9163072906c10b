"""One way in: a file of another form becomes a recipe, or the one sentence why not. Pure."""

from gb10.errors import UsageError
from gb10.models.importing.import_result import ImportChoices, ImportResult
from gb10.models.importing.launch_import import choose, import_launch
from gb10.models.importing.official import import_official
from gb10.models.importing.profile import ROOTS, import_profile
from gb10.models.launches.container_launch import mapping
from gb10.models.launches.launch_forms import launches_of
from gb10.models.load.safe_yaml import UnreadableError, mapping_of, read_yaml

FORMS = (
    "read are `docker run` and servers in scripts, compose files, objects of Kubernetes, vLLM's official recipes"
    " (vllm-project/recipes) and profiles of Ansible for SGLang (_model_profile)"
)


def engine_of_form(text: str, file: str, wanted: ImportChoices | None = None) -> str:
    """The engine whose server the file starts; raises UsageError for a file of none of the forms."""
    wanted = wanted or ImportChoices()
    launches = launches_of(text, file, wanted.beside)
    if launches and launches.found:
        return choose(launches, file, wanted).engine or ""
    values = _values(text, file)
    if {"meta", "model", "compatible_strategies"} <= set(values) and "model_id" in mapping(values["model"]):
        return "vllm"
    if any(mapping(values.get(root)) for root in ROOTS):
        return "sglang"
    if "recipe_version" in values or ("model" in values and "command" in values):
        hint = f"`recipe render {file}` reads it as it is"
        raise UsageError(f"{file} is a model recipe already: there is nothing to import", hint=hint)
    what = f": it is {launches.what}" if launches else ""
    raise UsageError(f"{file} has none of the forms that are imported{what}", hint=FORMS)


def import_recipe(text: str, file: str, wanted: ImportChoices) -> ImportResult:
    """The recipe of a file's text; raises UsageError with the reason when there is none."""
    launches = launches_of(text, file, wanted.beside)
    if launches and launches.found:
        return import_launch(launches, file, wanted)
    values = mapping(_values(text, file))
    if engine_of_form(text, file) == "vllm":
        return import_official(values, file, wanted)
    return import_profile(values, file, wanted)


def _values(text: str, file: str) -> dict[object, object]:
    try:
        found = mapping_of(read_yaml(text.replace("\r\n", "\n")))
    except UnreadableError as error:
        launches = launches_of(text, file)
        if launches:
            raise UsageError(f"{file} becomes no recipe: it is {launches.what}", hint=FORMS) from error
        where = f"{file}:{error.line}" if error.line else file
        raise UsageError(f"{file} is not YAML", where=f"{where}: {error.text}", hint="correct it there") from error
    return dict(found or {})
