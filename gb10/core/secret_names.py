"""Whether a name means a secret: of a variable, a field, an option, a header. Pure."""

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final


class Level(IntEnum):
    """What the name says of the value."""

    NONE = 0
    RANDOM = 1
    """A secret if the value looks like one: a key of a cache has the same name."""
    WEAK = 2
    """A secret, but for numbers and plain words."""
    STRONG = 3
    """A secret, whatever it is."""
    HEADER = 4
    """A secret to the end of the line."""


def words_of(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
STEMS: Final = re.compile(
    r"passw(?!ay|all)|passphrase|passcode|pswd|kennwort|senha|contrase[nñ]a|motdepasse|secret|credential|mnemonic|seedphrase"
    r"|(?:api|private|access|signing|encryption|master|auth|account|shared|session|licen[cs]e|storage|deploy|webhook"
    r"|admin|service|client|server|security|ssh|ssl|tls|wg|jwt|hmac|aes|rsa|encrypt|crypt)keys?(?!file|path|dir)"
    r"|(?:access|auth|api|bearer|refresh|hf|hub|hugging ?face|github|gitlab|git|npm|pypi|user|session|security|identity"
    r"|registry|csrf|xsrf|bot|oauth|personal|admin|service|login|account|client|app|device|jwt|sas|deploy|job|ci|ngc"
    r"|wandb|slack|telegram|discord|vault|consul|sudo|upload|download|webhook|private|secret)tokens?(?!iz)"
    r"|requirepass|masterauth|basicauth|(?:store|key)pass$|conn(?:ection)?str(?:ing)?|webhookurl|sessionkey|clientkeydata|databaseurl|redisurl|mongo(?:db)?uri|accesskeyid|secretid"
    r"|sharedaccesssignature|amzcredential|amzsignature|amzsecuritytoken|googsignature|googcredential"
)
"""In the name without what parts its words."""
HEADERS: Final = re.compile(r"(?:proxy)?authorization|(?:set)?cookies?2?")
LAST: Final = words_of("""
    pass pwd pw psk otp totp mfa jwt dsn creds cred auth auths pat bearer cookies csrf xsrf pwds psw mdp
""")
ENDINGS: Final = re.compile(r"(?<=.)(?:pwd|passwd)$|(?:db|user|usr|my|root|admin|sql|redis|pg|smtp|mail|ftp|ldap)pass$")
TOKEN: Final = re.compile(r"^[a-z]*tokens?$")
MODEL: Final = words_of("""
    inter ending eos bos pad unk sep cls mask image images video audio stop start end begin special next draft last
    first per prompt decode max min num n total avg mean output input completion generation generated cached new
    best target thinking reasoning think response additional added extra token context text chunk batched prefill
    spec speculative accepted kv mm tool multimodal placeholder vocab logprob logprobs top sampled ignore forced
    allowed bad suppress reserved step running usage swa mamba full pool free available used remaining budget one
    single each vision patch len length count size speech time pre post newline blank of hash with prefix no non
    every throughput long short cpu gpu
""")
"""Words that make a token one of a language model."""
PLAIN: Final = words_of("""
    cache caches sort primary foreign public pub dict kv hash index group partition map routing lookup object file
    row column idempotency tuning config pass field meta metadata state tensor weight weights param layer storage
    query value head num per block page prefix attn attention autotune compile shape graph kernel dispatch op
    registry rope any gpg pgp recv fetch
""")
"""Words that make a key one of a table."""
ABOUT: Final = words_of("""
    file files path paths dir folder name names type types mode count counts length len size limit ttl expiry
    expires expiration expired policy policies enabled disabled required rotation ref version provider backend
    manager store class module algorithm algo format method endpoint url uri host port env var field hint prompt
    validator parser loader handler timeout retries retry id ids index idx number num rate ratio usage per stats
    stat prefix source header headers scheme server service plugin function fn error errors failed exempt age
    interval stdin rounds iterations cost bits attempts lifetime seconds minutes hours days
""")
"""Last words of names that speak about a secret."""
KEPT: Final = (
    "accesskeyid",
    "secretid",
    "webhookurl",
    "webhookuri",
    "databaseurl",
    "dburl",
    "redisurl",
    "mongourl",
    "mongouri",
)
"""Names that end like these are of a secret nevertheless."""
BYPASS: Final = re.compile(
    r"^(?:by|com|tres|sur|encom|over|under|first|second|third|forward|backward|single|one|two|multi|fusion|inductor|grad"
    r"|compile|compiler|optimi[sz]ation|graph|fx|render|high|low|band|all|pre|post|next|last|each|per|max|num|test|no)$"
)
RANDOM: Final = words_of("""
    key keys session sess sid signature sig sas nonce hmac digest salt pepper code pin
""")
ALWAYS: Final = words_of("""
    key keys session sess sid signature sig sas hmac salt pepper pin webhook hook
""")
"""Secrets by name where the name is a variable's."""


@lru_cache(maxsize=1 << 14)
def level_of(name: str) -> Level:  # noqa: PLR0911 - a table by its rows
    """How much a name says that its value is a secret."""
    words = [word.lower() for word in WORD.findall(name)]
    if not words:
        return Level.NONE
    joined, last = "".join(words), words[-1]
    if HEADERS.fullmatch(joined):
        return Level.HEADER
    if _about(words, joined):
        return Level.NONE
    if STEMS.search(joined) and not (words[-1] in ("token", "tokens") and not MODEL.isdisjoint(words[:-1])):
        return Level.STRONG
    if last in LAST or ENDINGS.search(last):
        return _of_last(name, words)
    if TOKEN.match(last) or "token" in words:
        return _of_token(name, words)
    loud = name.upper() == name or name.startswith(("--", "x-", "X-"))
    if last in ALWAYS and loud and len(words) > 1 and PLAIN.isdisjoint(words):
        return Level.STRONG
    if last in ("webhook", "hook", "cookie", "session", "sess", "sid", "sessid", "jsessionid") or joined.endswith(
        "sessionid"
    ):
        return Level.WEAK
    if name == "PIN":
        return Level.STRONG
    return Level.RANDOM if last in RANDOM or _inside(words) else Level.NONE


def _about(words: list[str], joined: str) -> bool:
    return words[-1] in ABOUT and not joined.endswith("sessionid") and not joined.endswith(KEPT)


def _of_last(name: str, words: list[str]) -> Level:
    """Of names that end in a short word."""
    if words[-1] in ("pass",) and len(words) > 1 and BYPASS.match(words[-2]):
        return Level.NONE
    if (
        len(words) == 1
        and words[0] in ("pass", "pw", "pat", "otp", "auth", "bearer")
        and not (name.isupper() or name[0] == "-")
    ):
        return Level.WEAK
    return Level.STRONG


def _of_token(name: str, words: list[str]) -> Level:
    """Of a token: a language model's, or one that opens something."""
    if not MODEL.isdisjoint(word for word in words if word != "token") or words[-1].endswith("tokens"):
        return Level.NONE
    if words[-1] != "token" and not words[-1].endswith("token"):
        return Level.WEAK if name.isupper() else Level.NONE
    return Level.STRONG if name.isupper() or name.startswith("-") else Level.WEAK


def _inside(words: list[str]) -> bool:
    if words[-1] == "id":
        return True
    return "key" in words and words[-1] in ("data", "value", "b64", "base64", "pem")
