"""Secrets that show by themselves what they are: tokens of known makers, keys, logins, what is random. Pure.

The makers' patterns of detect-secrets are read by a linear engine; beside them are prefixes that it lacks.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain, pairwise
from types import ModuleType
from typing import Any, Final

from detect_secrets.plugins import (
    artifactory,
    aws,
    azure_storage_key,
    discord,
    github_token,
    gitlab_token,
    jwt,
    mailchimp,
    npm,
    openai,
    pypi_token,
    sendgrid,
    slack,
    square_oauth,
    stripe,
    telegram_token,
    twilio,
)
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString

from gb10.core.linear_regex import LinearPattern, linear
from gb10.core.secret_names import words_of

Span = tuple[int, int]
LIBRARY: Final[tuple[ModuleType, ...]] = (
    artifactory,
    aws,
    azure_storage_key,
    discord,
    github_token,
    gitlab_token,
    jwt,
    mailchimp,
    npm,
    openai,
    pypi_token,
    sendgrid,
    slack,
    square_oauth,
    stripe,
    telegram_token,
    twilio,
)
PREFIXES: Final = {
    8: words_of("""
        xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxc- xoxd- xapp- xwfp-
    """),
    10: words_of("""
        dop_v1_ doo_v1_ dor_v1_ shpat_ shpss_ shpca_ shppa_ sq0atp- sq0csp- ATATT3 ATBB ATCTT3 NRAK- NRJS-
    """),
    12: words_of("""
        glpat- gldt- glrt- glft- glsoat- glcbt- glptt- glagent- gloas- glimt- glffct- GR1348941 github_pat_ hf_ fw_
        api_org_ sk- sk_live_ sk_test_ rk_live_ rk_test_ whsec_ r8_ gsk_ nvapi- pplx- npm_ pypi- rubygems_ dckr_pat_
        dckr_oat_ crates- cio_ nfp_ vcp_ fo1_ fm1r_ fm2_ sbp_ sb_secret_ glsa_ glc_ eyJrIjoi sntrys_ sntryu_ hvs.
        hvb. hvr. pul- dp.pt. dp.st. dp.ct. dp.sa. dp.scim. AKIA ASIA ABIA ACCA A3T AROA AIDA AGE-SECRET-KEY-1 tvly-
        bkua_ ccipat_ CFPAT- phx_ phc_ rdme_ sendinblue- xkeysib- xsmtpsib- ddp_
    """),
    14: words_of("""
        LTAI AKID AQVN EAACEdEose0cBA FlyV1 AKCp sl. SG. key- sdk- mob- api- rzp_live_ rzp_test_ patP.
    """),
    16: words_of("""
        ghp_ gho_ ghu_ ghs_ ghr_ xai- tgp_v1_ fw_ pcsk_ lsv2_pt_ lsv2_sk_ wandb_v1_ jina_ csk- ntn_ secret_ lin_api_
        figd_ dapi AIza ya29. GOCSPX- 1//0 tskey- pscale_tkn_ pscale_pw_ pscale_oauth_ pnu_ PMAK- ops_eyJ
    """),
    24: words_of("""
        v1.0- v4.public. v2.local. v4.local. t1. y0_ cfut_ cfat_ cfk_ atlasv1. hub_ ollama_ oc_ or-v1- fal_
    """),
}
"""What begins a token, by how many further characters it has at least."""
LEAST: Final = {prefix: least for least, some in PREFIXES.items() for prefix in some}
BODY: Final = re.compile(r"[A-Za-z0-9_\-.~+/]+={0,3}")
STARTS: Final = re.compile("|".join(re.escape(one) for one in sorted(LEAST, key=len, reverse=True)))
OTHERS: Final = (
    r"(?i)\b(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/)([\w/+-]{8,})",
    r"(?i)\bdiscord(?:app)?\.com/api/(?:v\d+/)?webhooks/([\w/-]{8,})",
    r"(?i)\b[\w.-]*webhook\.office\.com/([\w/@.-]{8,})",
    r"(?i)\boutlook\.office(?:365)?\.com/webhook/([\w/@.-]{8,})",
    r"(?i)\bhooks\.zapier\.com/hooks/catch/([\w/-]{4,})",
    r"(?i)\bmaker\.ifttt\.com/trigger/\w+/(?:json/)?with/key/([\w-]{4,})",
    r"(?i)\bapi\.telegram\.org/(?:file/)?bot([0-9]+:[\w-]{20,})",
    r"(?i)\bhc-ping\.com/([\w-]{8,})",
    r"(?i)\bhooks?/(?:[\w-]+/)?([a-z0-9]{26,})",
    r"\b([0-9]{8,10}:AA[\w-]{30,})",
    r"\b([MNO][A-Za-z\d_-]{23,25}\.[\w-]{6}\.[\w-]{27,})",
    r"\b(eyJ[\w-]{10,}\.[\w-]{4,}(?:\.[\w-]*){0,3})",
    r"(\$(?:1|2[abxy]?|5|6|7|y|apr1|sha1|gy|argon2(?:i|d|id)|pbkdf2[\w-]*|scrypt|bcrypt[\w-]*)\$[\w./$=,+-]{8,})",
    r"(\{(?:SSHA|SHA|SMD5|MD5|CRYPT|SSHA256|SSHA512)\}[\w+/=$.]{8,})",
    r"\b([A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34})",
    r"\b([0-9a-f]{32}-us[0-9]{1,2})\b",
    r"\bsha256~([\w-]{20,})",
    r"(?i)\b(?:(?:wandb|vault|ngc|comet) login|gh auth login --with-token <<<)(?: --\S+)* ['\"]?([\w.-]{8,})",
    r"(?i)\bidentified (?:with \w+ )?(?:by|as) (?:password )?['\"]([^'\"\n]+)['\"]",
    r"(?i)\b(?:--from-literal|--build-arg|--secret)[= ]['\"]?[\w.-]*(?:pass|secret|token|key)[\w.-]*=([^\s'\"]+)",
    r"(?i)\b(?:echo|printf)\s+(?:-n\s+|'?%s\\?n?'?\s+)?([^|\n]{1,200}?)\s*\|[^|\n]{0,200}?"
    r"(?:--password-stdin|--with-token|--token-stdin|sudo\s+-S|chpasswd|passwd\s+--stdin)",
    r"\"(?:d|p|q|dp|dq|qi|k)\"\s*:\s*\"([\w-]{20,})\"",
    r"(?i)\b(?:otpauth://\S*?secret=)(\w+)",
    r"\bAWS4-HMAC-SHA256\s+([^\r\n'\"]+)",
    r"(?i)\bssh-keygen\b[^\n|;]{0,200}?\s-[NP]\s+['\"]?([^\s'\"]+)",
    r"\b(s\.[A-Za-z0-9]{24})\b",
    r"\b(pat[A-Za-z0-9]{14}\.[0-9a-f]{64})",
    r"\b(access_token\$(?:production|sandbox)\$[\w$]+)",
    r"\b(CLOJARS_[0-9a-z]{20,})",
    r"(?i)\b(?:useradd|usermod)\b[^\n|;]{0,200}?\s-p[ =]?['\"]?([^\s'\"!*]+)",
    r"(?i)\bsshpass\s+-p\s*['\"]?([^\s'\"]+)",
    r"(?i)\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\b[^\n|;]{0,200}?\s-p([^\s'\"]+)",
    r"(?i)\b(?:redis-cli|valkey-cli)\b[^\n|;]{0,200}?\s(?:-a|--pass)\s+['\"]?([^\s'\"]+)",
    r"(?i)\b(?:ldapsearch|ldapadd|ldapmodify|ldapwhoami)\b[^\n|;]{0,200}?\s-w\s+['\"]?([^\s'\"]+)",
    r"(?i)\b(?:ipmitool|zip|unzip|mosquitto_pub|mosquitto_sub)\b[^\n|;]{0,200}?\s-P\s*['\"]?([^\s'\"]+)",
    r"(?i)\b(?:docker|podman|nerdctl|buildah|skopeo|helm registry|oras|crane|regctl|oc|az|npm)\b[^\n|;]{0,200}?"
    r"\blogin\b[^\n|;]{0,200}?\s-p[ =]?['\"]?([^\s'\"]+)",
    r"(?i)\b(?:mongo|mongosh|mongodump|mongorestore|sqlcmd|bcp|oc login)\b[^\n|;]{0,200}?\s-[pP]\s+['\"]?([^\s'\"]+)",
    r"(?i)\b7z[ar]?\b[^\n|;]{0,200}?\s-p([^\s'\"]+)",
    r"(?i)\bopenssl\b[^\n|;]{0,200}?\s(?:-k|-K)\s+['\"]?([^\s'\"]+)",
    r"(?i)\s-pass(?:in|out|word)?\s+['\"]?pass:([^\s'\"]+)",
    r"(?i)\b[a-z]+:(?:thin|oci):([\w.-]+/[^@\s'\"]+)@",
    r"(?im)^[^\s:#]{1,100}:(?:\d{1,5}|\*):[^\s:]{1,60}:[^\s:]{1,60}:([^\s:]+)$",
    r"(?im)(?:^|\s)//[\w./:-]+/:_(?:authToken|auth|password)\s*=\s*([^\s]+)",
    r"(?i)\b(?:psk|passphrase|wep_key\d|wpa_passphrase)\s*=\s*\"?([^\s\"]+)",
)
"""What they are, by the group that is the secret."""
USER: Final = (
    r"(?:^|[\s'\",\[(=;|&])(?:-u|-U|--user|--proxy-user|--login|--userpwd|--creds|--src-creds|--dest-creds|--basic-auth|--http-user|--auth-user)"
    r"(?:\\*['\"])?(?:\s*[,=]\s*|\s+)?(?:\\*['\"])?([^\s'\":,\\]{1,100}:[^\s'\",\\]+)"
)
SCHEME: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])bearer[\s:=]{1,4}['\"]?(?=[\w.~+/=-])"
    r"|(?<![\w.-])(?:token|basic|negotiate|apikey|digest|ntlm) (?=[\w.~+/=-])",
    re.I,
)
PLAIN: Final = words_of("""
    token tokens auth authentication authorization scheme header headers realm format is was not and or of for with
    the a in error errors only type based support credentials none null required missing invalid must should can if
    from to are has string id url key keys value values expired as by on
""")
LOGIN: Final = re.compile(r"://")
ENDS: Final = re.compile(r"[\s'\"<>\\`|]")
BARE_LOGIN: Final = re.compile(r"@(?!sha\d{3}:)(?=[A-Za-z0-9\[])")
BEFORE_LOGIN: Final = re.compile(
    r"(?:^|[\s'\"=(,\[<])([A-Za-z0-9_][\w.+%-]{0,63}:(?!/)[^\s:@/'\",;=\[\](){}<>]{1,128})$"
)
HOST: Final = re.compile(
    r"(?:\[[0-9a-f:.]+\]|localhost|[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}|[A-Za-z0-9-]{1,63}(?=:\d))(?::\d{1,5})?(?=[\s/'\",;)?\]}]|\Z)"
)
QUIET_SCHEMES: Final = words_of("""
    ssh git+ssh sftp scp rsync git svn+ssh
""")
BEGIN: Final = re.compile(
    r"-{4,5} ?BEGIN (?:[A-Z0-9]{1,12} ){0,4}(?:PRIVATE KEY(?: BLOCK)?|PGP MESSAGE|SECRET KEY)(?: BLOCK)? ?-{4,5}"
)
FINISH: Final = re.compile(
    r"-{4,5} ?END (?:[A-Z0-9]{1,12} ){0,4}(?:PRIVATE KEY(?: BLOCK)?|PGP MESSAGE|SECRET KEY)(?: BLOCK)? ?-{4,5}"
)
KEY: Final = 1 << 16
"""Characters that a key has at most."""
RUN: Final = re.compile(r"[A-Za-z0-9+/_-]{28,}={0,2}")
MANGLED: Final = re.compile(r"_Z|NS_|cute|cutlass|flash|ILi|__|sha\d{3}-|sm_?\d\d|kernel|Kernel")
ENTROPY: Final = 4.1
BITS: Final = Base64HighEntropyString()


def of_kinds(text: str) -> Iterator[Span]:
    """All of them."""
    return chain(_tokens(text), _others(text), _logins(text), _blocks(text), _schemes(text), _random(text))


@cache
def patterns() -> tuple[LinearPattern, ...]:
    """The expressions, compiled once."""
    library = dict.fromkeys(one for module in LIBRARY for one in _of_module(module))
    return (*(linear(one) for one in library), *(linear(one) for one in OTHERS), linear(USER))


def _of_module(module: ModuleType) -> Iterator[str]:
    """What a module of the library looks for. A look-ahead for a word's end says nothing about what is masked."""
    for found in vars(module).values():
        if isinstance(found, type) and issubclass(found, RegexBasedDetector) and found.__module__ == module.__name__:
            patterns: Any = found.denylist
            for one in patterns:
                yield one.pattern.replace(r"(?!\w)", "").replace("{50,1024}", "{50,}").replace("^", "").replace("$", "")


def _others(text: str) -> Iterator[Span]:
    for pattern in patterns():
        for found in pattern.finditer(text):
            group = next((number for number in range(1, pattern.groups + 1) if found.start(number) >= 0), 0)
            span = found.span(group) if pattern.groups == 1 and group else found.span()
            if not _numbers(text[span[0] : min(span[1], span[0] + 64)]):
                yield span


def _numbers(value: str) -> bool:
    """Ids of user and group, a place in a shell, what is masked."""
    return bool(re.fullmatch(r"\d+:\d+|\$\{?[A-Z_]\w*\}?|\$\([^)]*\)?|(?:\$\{?\w+\}?:?){2}|\*+", value.strip("'\"")))


def _tokens(text: str) -> Iterator[Span]:
    """What begins as a maker's tokens do."""
    done = 0
    for found in STARTS.finditer(text):
        start = found.start()
        if start < done or (start and (text[start - 1].isalnum() or text[start - 1] == "_")):
            continue
        rest = BODY.match(text, found.end())
        end = rest.end() if rest else found.end()
        least = LEAST[found[0]]
        done = end if end - found.end() >= least else done
        head = text[found.end() : found.end() + 40]
        if end - found.end() >= least and _token_like(found[0], head):
            yield start, end


def _token_like(prefix: str, head: str) -> bool:
    if prefix in SHORT:
        word = head.split("/", maxsplit=1)[0].split(".", maxsplit=1)[0]
        return len(word) >= 12 and any(one.isdigit() for one in word) and any(one.isalpha() for one in word)
    return prefix != "hf_" or bool(re.match(r"[A-Za-z0-9]{12}", head))


SHORT: Final = words_of("""
    key- sdk- mob- api- sl. SG. secret_ fw_ hub_ t1. oc_ v1.0- y0_ fal_ 1//0 A3T ATBB AROA AIDA cio_ sk- dapi jina_
    csk- AKID crates-
""")
"""What also begins words."""


def _logins(text: str) -> Iterator[Span]:
    """Name and password of a URL of any scheme, or of a host with a dot or a port."""
    for found in LOGIN.finditer(text):
        first = found.end()
        ends = ENDS.search(text, first, first + 1024)
        part = text[first : ends.start() if ends else first + 1024]
        if "@" not in part:
            continue
        authority = re.split(r"[/?#]", part, maxsplit=1)[0]
        user = authority.rpartition("@")[0]
        if not user and ":" in authority and not re.fullmatch(r"[\w.-]*:\d{1,5}|\[.*", authority):
            user = part.rpartition("@")[0]  # a password with a slash
        scheme = re.search(r"[a-z0-9+.-]{1,30}$", text[max(0, first - 33) : first - 3], re.I)
        quiet = scheme is not None and scheme[0].lower() in QUIET_SCHEMES
        if user and (":" in user or not quiet) and not re.fullmatch(r"\*+|\$\{?[A-Z_]+\}?(?::\$\{?[A-Z_]+\}?)?", user):
            yield first, first + len(user)
    for found in BARE_LOGIN.finditer(text):
        before = BEFORE_LOGIN.search(text[max(0, found.start() - 200) : found.start()])
        if before and HOST.match(text, found.end(), found.end() + 300):
            yield found.start() - len(before[1]), found.start()


def _blocks(text: str) -> Iterator[Span]:
    """Private keys with their first and last line; one whose beginning or end was cut off."""
    done = 0
    starts = iter([*(one.start() for one in BEGIN.finditer(text)), len(text)])
    start = next(starts)
    for finish in FINISH.finditer(text):
        while start < done:
            start = next(starts)
        if start < finish.start():
            while start < finish.start():
                yield start, min(finish.end(), start + KEY)
                start = next(starts)
        else:
            yield max(done, finish.start() - KEY // 4), finish.end()
        done = finish.end()
    while start < len(text):
        yield start, min(len(text), start + KEY)
        start = next(starts)
    mac = 0  # where the next one is, sought once: many lines may come before it
    for found in re.finditer(r"Private-Lines: \d+", text):
        if 0 <= mac < found.end():
            mac = text.find("Private-MAC", found.end())
        last = min(len(text), found.end() + KEY)
        yield found.end(), mac if 0 <= mac < last else last
    for found in re.finditer(r"Private-(?:MAC|Hash): ?([0-9a-f]+)", text):
        yield found.span(1)


def _schemes(text: str) -> Iterator[Span]:
    """What follows the word of a scheme of HTTP: ``Bearer``, ``Basic``, ``Token``."""
    done = 0
    for found in SCHEME.finditer(text):
        body = BODY.match(text, found.end())
        if not body or body.start() < done:
            continue
        done = body.end()
        value = text[body.start() : min(body.end(), body.start() + 400)]
        word = found[0].strip(" :='\"\t").lower()
        if word == "bearer":
            secret = value.lower().strip(".=/-") not in PLAIN and len(value) >= 5
        elif word == "basic":
            secret = _is_login(value)
        else:
            secret = (
                len(value) >= 16
                and any(map(str.isdigit, value))
                and any(map(str.isalpha, value))
                and "=" not in value[:-2]
            )
        if secret:
            yield body.span()


def _is_login(value: str) -> bool:
    """Whether it is a name and a password in base64."""
    try:
        return b":" in base64.b64decode(value[: len(value) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return False


def _random(text: str) -> Iterator[Span]:
    """Long words that nobody made up, by how often their characters change their kind, and by their entropy."""
    for found in RUN.finditer(text):
        run = text[found.start() : min(found.end(), found.start() + 512)]
        if max(map(len, run.split("/"))) < 24 or run.isalpha() or run.isdigit() or MANGLED.search(run):
            continue
        if text[max(0, found.start() - 8) : found.start()].startswith(("sha256-", "sha512-")):
            continue
        part = max(run.split("/"), key=len).rstrip("=")
        kinds = [0 if one.isdigit() else 1 if one.islower() else 2 if one.isupper() else 3 for one in part]
        if not {0, 1, 2} <= set(kinds) or kinds.count(3) > len(part) // 10:
            continue
        changes = sum(one != other for one, other in pairwise(kinds)) / len(part)
        if changes >= 0.42 and kinds.count(0) >= 2 and BITS.calculate_shannon_entropy(part) >= ENTROPY:
            yield found.span()
