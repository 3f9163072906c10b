"""What a user adds to every request: both forms, what is refused, and which load generator sends it."""

import json
import math
from dataclasses import replace

import pytest
from pydantic import ValidationError

from gb10.errors import UsageError
from gb10.serving.benchmark.bench_bundle import PlanOfHead
from gb10.serving.load_generator.aiperf import check_extra
from gb10.serving.load_generator.load_plan import Plan
from gb10.serving.load_generator.request_fields import DEEPEST, LARGEST, LONGEST_NAME, request_fields


def test_pairs_and_objects_become_one_object() -> None:
    texts = ["top_p=0.9", "seed=x", "stop=a,b", '{"top_k": 20, "chat_template_kwargs": {"a": [1, {"b": null}]}}']
    assert request_fields(texts) == {
        "top_p": 0.9,
        "seed": "x",
        "stop": "a,b",
        "top_k": 20,
        "chat_template_kwargs": {"a": [1, {"b": None}]},
    }


def test_no_thinking_joins_the_variables_of_the_template() -> None:
    assert request_fields([], no_thinking=True) == {"chat_template_kwargs": {"enable_thinking": False}}
    both = request_fields(['chat_template_kwargs={"thinking": false}'], no_thinking=True)
    assert both == {"chat_template_kwargs": {"thinking": False, "enable_thinking": False}}
    for text in ('{"chat_template_kwargs": {"enable_thinking": true}}', "chat_template_kwargs=none"):
        with pytest.raises(UsageError, match="--no-thinking sets"):
            request_fields([text], no_thinking=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("top_p", "not a field of a request"),
        ("=1", "not a field of a request"),
        ("a b=1", "not a field of a request"),
        ("[1]", "not a field of a request"),
        ('{"a": 1', "no JSON object"),
        ('{"a": NaN}', "NaN is no number of JSON"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"a": {"b": 1, "b": 2}}', "'b' stands twice"),
        ('{"": 1}', "not a name of a field"),
        (json.dumps({"x" * 81: 1}), "not a name of a field"),
        ('{"a": ' + "[" * 100_000, "no JSON object"),
        ('{"a": ' + "[" * DEEPEST + "]" * DEEPEST + "}", "nested more than 16 deep"),
        ('{"a": 1e999}', "a number that JSON has not"),
        (f"a={'x' * LARGEST}", "65,536 at most"),
        ("model=m", "the bench itself sets model"),
        ('{"stream": false, "messages": []}', "the bench itself sets messages, stream"),
        ("max_completion_tokens=9", "the bench itself sets max_completion_tokens"),
        ("n=2", "the bench itself sets n"),
    ],
)
def test_what_cannot_be_sent_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        request_fields([text])
    assert words in str(caught.value)


def test_a_field_stands_once_and_exact_answers_have_theirs() -> None:
    with pytest.raises(UsageError, match="'a' twice"):
        request_fields(["a=1", '{"a": 1}'])
    assert request_fields(["ignore_eos=true"]) == {"ignore_eos": True}
    with pytest.raises(UsageError, match="the bench itself sets ignore_eos"):
        request_fields(["ignore_eos=true"], exact=True)


def test_a_bundle_of_another_is_held_to_the_same() -> None:
    fields = {"chat_template_kwargs": {"enable_thinking": False, "a": [1, None]}}
    head = PlanOfHead.model_validate_json(json.dumps({**plan(50).document, "extra": fields}))
    assert head.plan() == replace(plan(50), extra=fields)
    for odd, words in (({"stream": True}, "itself sets stream"), ({"a": math.nan}, "a number that JSON has not")):
        with pytest.raises(UsageError, match=words):
            PlanOfHead.model_validate_json(json.dumps({**plan(50).document, "extra": odd})).plan()
    with pytest.raises(ValidationError):
        PlanOfHead.model_validate_json(json.dumps(plan(50, 60).document))


@pytest.mark.parametrize("text", ["${HOME}", "{{ 1 }}", "{% if a %}", "{# a #}"])
def test_aiperf_refuses_what_its_settings_would_replace(text: str) -> None:
    check_extra({"chat_template_kwargs": {"enable_thinking": False}, "stop": "$5 {a}"})
    with pytest.raises(UsageError, match="aiperf replaces"):
        check_extra({"stop": [text]})


def plan(*answers: int) -> Plan:
    return Plan(
        prompt=100,
        answers=answers,
        depth=0,
        concurrency=(1, 4),
        runs=3,
        warm_up=1,
        exact=False,
        canary_tokens=64,
        extra={},
    )


def test_every_length_is_measured_at_every_number_of_requests() -> None:
    several = plan(128, 512)
    assert [(one.answer, one.concurrency) for one in several.shapes] == [(128, 1), (128, 4), (512, 1), (512, 4)]
    assert several.document["answer"] == [128, 512]
    assert plan(256).document["answer"] == 256
    assert plan(256).of_one_length("bench compare") == plan(256)
    with pytest.raises(UsageError, match="bench compare takes one answer length, and --tg gives 2"):
        several.of_one_length("bench compare")


def test_fields_may_be_as_deep_and_as_long_as_the_limits() -> None:
    value: object = 1
    for _ in range(DEEPEST - 1):
        value = [value]
    assert request_fields([json.dumps({"a": value})]) == {"a": value}
    with pytest.raises(UsageError, match=f"nested more than {DEEPEST} deep"):
        request_fields([json.dumps({"a": [value]})])
    longest = "n" * LONGEST_NAME
    assert request_fields([json.dumps({longest: 1})]) == {longest: 1}
    for name in ("", longest + "n"):
        with pytest.raises(UsageError, match="not a name of a field"):
            request_fields([json.dumps({name: 1})])
