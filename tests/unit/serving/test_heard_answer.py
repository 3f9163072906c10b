"""The first answer of a server that turns speech to text, and who is asked so."""

import io
import wave

import pytest

from gb10.models.choose.served_models import served_by
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import own_section
from gb10.models.render.rendered import RenderedRecipe, node_container
from gb10.serving.guard.finding import Verdict
from gb10.serving.run.heard_answer import judge_heard, tone
from gb10.serving.run.service import ContainerSettings, curl_line, service_of
from gb10.serving.run.service_nodes import nodes_of


def test_the_tone_is_a_wav_file_of_two_seconds() -> None:
    with wave.open(io.BytesIO(tone())) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16000)
        heard = file.readframes(file.getnframes())
    assert len(heard) == 2 * 2 * 16000
    assert len(set(heard)) > 100


@pytest.mark.parametrize(
    ("status", "text", "verdict", "why"),
    [
        (200, b'{"text": "Mm.", "usage": {"type": "duration", "seconds": 2}}', Verdict.OK, ""),
        (200, b'{"text": ""}', Verdict.OK, ""),
        (200, b'{"text": null}', Verdict.ERROR, "no text of what it heard"),
        (200, b"[1]", Verdict.ERROR, "no text of what it heard"),
        (200, b"<html>", Verdict.ERROR, "no text of what it heard"),
        (200, b"[" * 100_000, Verdict.ERROR, "no text of what it heard"),
        (501, b"no", Verdict.ERROR, "/v1/audio/transcriptions: 501 no"),
    ],
)
def test_what_a_body_says(status: int, text: bytes, verdict: Verdict, why: str) -> None:
    found = judge_heard(status, text)
    assert (found.verdict, why in found.why) == (verdict, True)


def test_both_engines_have_models_that_only_transcribe_and_a_chat_model_that_hears_is_none() -> None:
    for engine in ("vllm", "sglang"):
        served = served_by(engine)
        assert "Qwen3ASRForConditionalGeneration" in served.transcribes
        assert served.transcribes <= served.generates
        assert not {"Qwen3OmniMoeForConditionalGeneration", "VoxtralForConditionalGeneration"} & served.transcribes


def test_a_recipe_says_what_its_server_answers() -> None:
    text = '{"recipe_version": "2", "model": "a/b", "container": "x", "command": "vllm serve {model}", "gb10": %s}'
    recipe = load_model_recipe(text % '{"answers": "audio/transcriptions"}', "x.yaml")
    assert recipe.issues == ()
    containers = (node_container("n", "image", "vllm serve a/b", {}),)
    rendered = RenderedRecipe(runtime="vllm", image="image", script=None, serve="vllm serve a/b", containers=containers)
    service = service_of(
        name="s",
        model="a/b",
        rendered=rendered,
        nodes=nodes_of(("n",)),
        mods=(),
        settings=ContainerSettings(),
        answers=own_section(recipe).answers,
    )
    assert service.answers == "audio/transcriptions"
    line = curl_line("http://n:8000", "a/b", service.answers)
    assert line == "curl http://n:8000/v1/audio/transcriptions -F model=a/b -F file=@speech.wav"
    wrong = load_model_recipe(text % '{"answers": "songs"}', "x.yaml")
    assert [issue for issue in wrong.issues if "answers" in issue.text]
