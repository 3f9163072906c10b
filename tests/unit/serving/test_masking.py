"""What a bundle hides: kinds of secrets by their makers, and whatever follows a name that means a secret."""

import base64
import io
import json
import shlex
import tarfile

import pytest

from gb10.core.secret_names import Level, level_of
from gb10.serving.checkup.bundle import bundle
from gb10.serving.doctor.masking import masked, masked_environment, secrets_in, secrets_of

BODY = "Zq7xK2mP9vR4tB8nL3wY6cD1fG5hJ0sA"
HEX = "9f86d081884c7d659a2feaa0c55ad015"
PLAIN = "swordfish"
LOGIN = base64.b64encode(b"bob:hunter2").decode()

MAKERS = """
    hf_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_11 glpat- gldt- glrt- glsoat- sk- sk-proj- sk-ant-api03- sk-or-v1-
    sk_live_ sk_test_ rk_live_ whsec_ r8_ gsk_ nvapi- pplx- xai- tgp_v1_ pcsk_ lsv2_pt_ npm_ pypi-AgEIcHlwaS5vcmc
    rubygems_ dckr_pat_ dckr_oat_ dop_v1_ shpat_ shpss_ ATATT3xFfGF0 NRAK- glsa_ sntrys_ hvs.CAES hvb. pul- dp.pt.
    AIzaSyA ya29.a0 GOCSPX- tskey-auth- pscale_pw_ PMAK- AGE-SECRET-KEY-1 xoxb-123456789012- xoxp-1234- xapp-1-A1-
    figd_ lin_api_ ntn_ nfp_ sbp_ LTAI5t tvly- dapi12 wandb_v1_ xkeysib-
"""

FORMS = {
    # what follows a name, in the notations of shells and settings
    "option": ("vllm serve M --api-key {} --port 8000", BODY),
    "option with equals": ("vllm serve M --api-key={} --port 8000", PLAIN),
    "option in quotes": ('vllm serve M --api-key "{}" --port 8000', "two words"),
    "option of several": ("vllm serve M --api-key first-one {} --port 1", BODY),
    "underscored option": ("--hf_token {}", PLAIN),
    "short password option": ("tool --password {} next", "abc"),
    "pass option": ("tool --pass {} next", "12345"),
    "auth option": ("--auth {} next", "me:hunter2"),
    "token option": ("huggingface-cli login --token {}", PLAIN),
    "secret option": ("--client-secret {}", PLAIN),
    "admin key": ("sglang serve --admin-api-key {}", PLAIN),
    "single dash": ("prog -password {}", PLAIN),
    "variable": ("HF_TOKEN={}", PLAIN),
    "PASS": ("PASS={}", "hunter2"),
    "short PASS": ("PASS={}", "x1"),
    "PWD": ("PWD={}", "hunter2"),
    "MYSQL_PWD": ("MYSQL_PWD={}", "abc"),
    "DB_PASS": ("DB_PASS={}", "12345"),
    "DBPASS": ("DBPASS={}", "12345"),
    "PGPASSWORD": ("PGPASSWORD={} psql", "1234"),
    "REDISCLI_AUTH": ("REDISCLI_AUTH={}", PLAIN),
    "SESSION": ("SESSION={}", PLAIN),
    "BEARER": ("BEARER={}", PLAIN),
    "SECRET_KEY": ("SECRET_KEY={}", "red blue fox"),
    "WANDB_API_KEY": ("WANDB_API_KEY={}", HEX),
    "AWS_SECRET_ACCESS_KEY": ("AWS_SECRET_ACCESS_KEY={}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    "AWS_SESSION_TOKEN": ("AWS_SESSION_TOKEN={}", "FwoGZXIvYXdzEBYaDHFza2V5"),
    "lower aws": ("aws_secret_access_key = {}", "wJalrXUtnFEMIK7MDENGbPx"),
    "words with blanks": ("PASS={}", "correct horse battery"),
    "exported": ("export DB_PASSWORD='{}'", "two words"),
    "exported with dollar quotes": ("export DB_PASSWORD=$'{}'", "two words"),
    "docker -e": ("docker run -e HF_TOKEN={} image", PLAIN),
    "docker -e in quotes": ('docker run -e "DB_PASS={}" image', "two words"),
    "docker --env": ("docker run --env 'API_KEY={}' image", "two words"),
    "systemd": ('Environment="DB_PASSWORD={}"', "two words"),
    "systemd of several": ('Environment="A=1" "HF_TOKEN={}"', PLAIN),
    "systemd bare": ("Environment=HF_TOKEN={}", PLAIN),
    "dockerfile": ("ENV HF_TOKEN {}", PLAIN),
    "fish": ("set -gx HF_TOKEN {}", PLAIN),
    "csh": ("setenv HF_TOKEN {}", PLAIN),
    "powershell": ("$env:HF_TOKEN = '{}'", PLAIN),
    "windows": ("setx HF_TOKEN {}", PLAIN),
    "default of a variable": ("PASSWORD=${{PASSWORD:-{}}}", PLAIN),
    "ini": ("password = {}", "hunter two"),
    "ini with semicolon": ("; password = {}", "hunter2"),
    "properties": ("db.password={}", "a,b"),
    "toml": ('api_key = "{}"', PLAIN),
    "hcl": ('secret_key   = "{}"', PLAIN),
    "triple quotes": ('password = """{}"""', "two words"),
    "netrc": ("machine h login me password {}", "abc"),
    "netrc over lines": ("machine h\n  login me\n  password {}\n", "abc"),
    "pgpass": ("db.host:5432:app:me:{}\n", "hunter2"),
    "npmrc": ("//registry.example/:_authToken={}", PLAIN),
    "npmrc auth": ("_auth = {}", LOGIN),
    "pypirc": ("[pypi]\nusername = me\npassword = {}", "abc def"),
    "wireguard": ("PrivateKey = {}", "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="),
    "preshared": ("PresharedKey = {}", "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="),
    "wifi": ('psk="{}"', "my wifi"),
    # JSON, YAML, XML
    "json": ('{{"password": "{}"}}', "red fox"),
    "json without blanks": ('{{"api_key":"{}"}}', PLAIN),
    "json number": ('{{"password": {}}}', "123456"),
    "json list": ('{{"api_keys": ["a1b2c3", "{}"]}}', PLAIN),
    "json object": ('{{"credentials": {{"user": "bob", "x": "{}"}}}}', PLAIN),
    "json escaped": ('"log": "{{\\"api_key\\": \\"{}\\"}}"', PLAIN),
    "json escaped twice": ('{{\\\\\\"password\\\\\\": \\\\\\"{}\\\\\\"}}', "red fox"),
    "json by code points": ("\\u0022api_key\\u0022:\\u0022{}\\u0022", PLAIN),
    "json with a quote": ('{{"password": "ab\\"{}"}}', "rest of it"),
    "html": ("&quot;password&quot;: &quot;{}&quot;", "red fox"),
    "docker auth": ('{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}', LOGIN),
    "identity token": ('{{"identitytoken": "{}"}}', PLAIN),
    "docker inspect": ('"Env": ["PATH=/bin", "HF_TOKEN={}"]', "two words"),
    "docker inspect over lines": ('"Env": [\n "PATH=/bin",\n "DB_PASS={}"\n]', "1234"),
    "args in json": ('"Args": ["serve", "--api-key", "{}", "--port"]', PLAIN),
    "camel case": ('{{"apiKey": "{}"}}', PLAIN),
    "camel password": ('{{"dbPassword": "{}"}}', "78"),
    "yaml": ("password: {}", "two words"),
    "yaml in quotes": ("  api_key: '{}'", PLAIN),
    "yaml pair": ("- name: HF_TOKEN\n  value: {}", PLAIN),
    "yaml pair in quotes": ('  - name: DB_PASS\n    value: "{}"', "two words"),
    "yaml pair in one line": ("- {{name: HF_TOKEN, value: {}}}", PLAIN),
    "json pair": ('{{"name": "HF_TOKEN", "value": "{}"}}', "two words"),
    "json pair over lines": ('{{\n "Name": "API_KEY",\n "Value": "{}"\n}}', PLAIN),
    "python pair": ("{{'name': 'HF_TOKEN', 'value': '{}'}}", PLAIN),
    "yaml list": ("api_key:\n- abc123\n- {}\n", PLAIN),
    "yaml map": ("password:\n  value: {}\n", "hunter2"),
    "yaml block": ("password: |\n  {}\nnext: 1\n", "two words"),
    "yaml env list": ("environment:\n  - HF_TOKEN={}\n", PLAIN),
    "kubernetes secret": ("stringData:\n  password: {}\n", "hunter2"),
    "kubeconfig": ("    client-key-data: {}", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVk"),
    "kubeconfig token": ("    token: {}", "abcdef.0123456789abcdef"),
    "ansible": ("ansible_become_pass: {}", "abc"),
    "xml": ("<password>{}</password>", "red fox"),
    "xml attribute": ('<server user="x" password="{}"/>', "red fox"),
    "xml pair": ('<add key="ApiKey" value="{}"/>', PLAIN),
    # Python
    "vllm arguments": ("non-default args: {{'api_key': ['{}'], 'port': 8000}}", PLAIN),
    "vllm namespace": ("Namespace(api_key=['{}'], port=8000)", PLAIN),
    "vllm namespace of two": ("Namespace(api_key=['abcdef', '{}'], port=8000)", PLAIN),
    "sglang arguments": ("server_args=ServerArgs(model_path='M', api_key='{}', port=1)", PLAIN),
    "argv": ("['vllm', 'serve', '--api-key', '{}', '--port', '8000']", PLAIN),
    "argv of two": ("['--api-key', 'first', '{}', '--port', '8000']", PLAIN),
    "argv with equals": ("['serve', '--api-key={}']", "two words"),
    "argv in double quotes": ('["serve", "--hf-token", "{}"]', PLAIN),
    "tuple": ("('HF_TOKEN', '{}')", PLAIN),
    "items": ("dict_items([('PATH', '/bin'), ('DB_PASS', '{}')])", "1234"),
    "environ": ("environ({{'PATH': '/bin', 'HF_TOKEN': '{}'}})", PLAIN),
    "assigned in environ": ('os.environ["HF_TOKEN"] = "{}"', PLAIN),
    "default of getenv": ('os.getenv("HF_TOKEN", "{}")', PLAIN),
    "bytes": ("{{b'authorization': b'Bearer {}'}}", PLAIN),
    "header tuple": ("(b'authorization', b'Bearer {}')", PLAIN),
    "secret str": ("password=SecretStr('{}')", PLAIN),
    "typed": ('password: str = "{}"', PLAIN),
    "keyword": ('connect(user="me", password="{}", port=1)', "red fox"),
    "dataclass": ("Config(user='me', password='{}')", "red-fox"),
    "bare dataclass": ("Config(user=me, token={})", BODY),
    "nested": ("{{'auth': {{'password': '{}'}}}}", "red fox"),
    "dict of a list of tuples": ("headers=[('x-api-key', '{}')]", PLAIN),
    "ruby": (":password => '{}'", "red fox"),
    "setter": ('setPassword("{}")', "red fox"),
    "go": ('token := "{}"', PLAIN),
    "rust": ('password: String::from("{}")', "red fox"),
    "table": ("| HF_TOKEN | {} |", PLAIN),
    "rich table": ("\u2502 HF_TOKEN \u2502 {} \u2502", PLAIN),
    "columns": ("DB_PASS      {}", "hunter2"),
    "sentence": ("the password is {}", "hunter2"),
    "sentence about a user": ("Password for bob is {}", "hunter2"),
    "generated": ("Generated password: {}", "hunter2"),
    # URLs and HTTP
    **{
        f"login of {scheme}": (scheme + "://me:{}@host:5432/db", "hunter2")
        for scheme in [
            "http",
            "https",
            "ftp",
            "sftp",
            "ssh",
            "redis",
            "rediss",
            "postgres",
            "postgresql",
            "mysql",
            "mysql+pymysql",
            "mongodb",
            "mongodb+srv",
            "amqp",
            "amqps",
            "mqtt",
            "nats",
            "kafka",
            "socks5",
            "socks5h",
            "smtp",
            "smtps",
            "imap",
            "ldap",
            "ldaps",
            "s3",
            "clickhouse",
            "git",
            "git+https",
            "jdbc:mysql",
            "tcp",
            "ws",
            "wss",
        ]
    },
    "redis without a user": ("redis://:{}@host", "hunter2"),
    "token as user": ("https://{}@github.com/x/y", PLAIN),
    "x-access-token": ("https://x-access-token:{}@github.com/x", PLAIN),
    "password with a slash": ("postgres://me:{}@host/db", "hun/ter2"),
    "password with an at": ("postgres://me:{}@host/db", "p@ssw0rd"),
    "login without a scheme": ("--proxy me:{}@proxy.lan:3128", "hunter2"),
    "jdbc": ("jdbc:mysql://h/db?user=me&password={}&x=1", "hunter2"),
    "oracle": ("jdbc:oracle:thin:{}@h:1521", "me/hunter2"),
    "query": ("GET /v1?api_key={}&x=1", PLAIN),
    "query token": ("https://h/x?x=1&token={}", PLAIN),
    "access token": ("https://h/x#access_token={}&x=1", PLAIN),
    "query in html": ("https://h/?x=1&amp;token={}&amp;y=2", PLAIN),
    "escaped query": ("callback%3Fapi_key%3D{}", PLAIN),
    "s3 signature": ("https://h/x?X-Amz-Signature={}&x=1", HEX + HEX),
    "s3 credential": ("https://h/x?X-Amz-Credential={}&x=1", "ABCDEF%2F20260101%2Fus"),
    "s3 security token": ("https://h/x?X-Amz-Security-Token={}", PLAIN),
    "cloudfront": ("https://h/x?Expires=1&Signature={}&x=1", "aB-cd~ef"),
    "google signature": ("https://h/x?X-Goog-Signature={}", HEX),
    "azure sas": ("https://a.blob.core.windows.net/c?sv=2024&sig={}", "aB%2Fcd%3D"),
    "azure storage": ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=x", BODY + "=="),
    "azure bus": ("Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey={}", BODY + "="),
    "ado.net": ("Server=h;User Id=me;Password={};Database=d", "hun ter"[:3]),
    "odbc": ("Driver=x;UID=me;PWD={{{}}};", "hunter2"),
    "bearer": ("Authorization: Bearer {}", "abc.def-ghi"),
    "bearer alone": ("got Bearer {} from client", PLAIN),
    "basic": ("Authorization: Basic {}", LOGIN),
    "basic alone": ("sent Basic {}", LOGIN),
    "token scheme": ("Authorization: Token {}", PLAIN),
    "digest": ('Authorization: Digest username="me", response="{}"', HEX),
    "proxy": ("Proxy-Authorization: Basic {}", LOGIN),
    "raw authorization": ("authorization: {}", "two words"),
    "curl header": ("curl -H 'Authorization: Bearer {}' http://h/v1", PLAIN),
    "curl header in double quotes": ('curl -H "X-Api-Key: {}" http://h/v1', PLAIN),
    "curl user": ("curl -u me:{} http://h", "hunter2"),
    "curl user in quotes": ("curl --user 'me:{}' http://h", "hunter2"),
    "curl user without a blank": ("curl -ume:{} http://h", "hunter2"),
    "curl in argv": ("['curl', '-u', 'me:{}', 'http://h']", "hunter2"),
    "curl proxy": ("curl --proxy-user me:{} http://h", "1234"),
    "skopeo": ("skopeo copy --dest-creds me:{} a b", "hunter2"),
    "cookie": ("Cookie: a=1; session={}", PLAIN),
    "set cookie": ("Set-Cookie: sid={}; HttpOnly", PLAIN),
    "x header": ("X-Auth-Token: {}", PLAIN),
    "private token": ("PRIVATE-TOKEN: {}", PLAIN),
    "api key header": ("api-key: {}", HEX),
    "subscription key": ("Ocp-Apim-Subscription-Key: {}", HEX),
    "csrf": ("X-CSRFToken: {}", BODY),
    "slack hook": ("https://hooks.slack.com/services/{}", "T0AAAAAAA/B0AAAAAAA/abcdefabcdef"),
    "discord hook": ("https://discord.com/api/webhooks/{}", "123456789012345678/abcDEF-ghi"),
    "teams hook": ("https://x.webhook.office.com/webhookb2/{}", "1234-abcd@5678/IncomingWebhook/ef"),
    "telegram": ("https://api.telegram.org/bot{}/sendMessage", "123456789:AAabcdefghijklmnopqrstuvwxyz0123456"),
    "telegram alone": ("bot {}", "123456789:AAabcdefghijklmnopqrstuvwxyz0123456"),
    "hook variable": ("ALERT_WEBHOOK={}", "https://h.example/x/abc"),
    "sentry": ("SENTRY_DSN=https://{}@o1.ingest.sentry.io/2", HEX),
    # keys and hashes
    "jwt": ("got {}", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"),
    "aws id": ("id {}", "AKIAABCDEFGHIJKLMNOP"),
    "rsa": ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", "MIIEowIBAAKCAQEA"),
    "openssh": ("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----", "b3BlbnNzaC1rZXktdjEA"),
    "pkcs8": ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n{}\n-----END ENCRYPTED PRIVATE KEY-----", "MIIEowIBAAKCAQEA"),
    "pgp": ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\n-----END PGP PRIVATE KEY BLOCK-----", "lQVYBF"),
    "ssh2": ("---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----", "P2/56wAAAi"),
    "key without an end": ("-----BEGIN PRIVATE KEY-----\n{}\n", "MIIEowIBAAKCAQEA"),
    "key without a beginning": ("{}\n-----END PRIVATE KEY-----\n", "MIIEowIBAAKCAQEA"),
    "key in json": ('{{"private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n"}}', "MIIEowIB"),
    "putty": ("PuTTY-User-Key-File-3: x\nPrivate-Lines: 1\n{}\nPrivate-MAC: 12\n", "AAAAgQDxyz"),
    "jwk": ('{{"kty": "RSA", "d": "{}"}}', BODY),
    "shadow": ("root:{}:19000:0:99999:7:::", "$6$salt$abcdefghijklmnopqrstuvwx"),
    "htpasswd": ("me:{}", "$apr1$abcdefgh$abcdefghijklmnopqrstu"),
    "bcrypt": ("hash {}", "$2b$12$abcdefghijklmnopqrstuv"),
    "totp": ("otpauth://totp/x?secret={}&issuer=y", "JBSWY3DPEHPK3PXP"),
    "mnemonic": ("mnemonic: {}", "abandon ability able about above"),
    "azure client": ("value {}", "abc8Q~" + BODY),
    "mailchimp": ("got {}", HEX + "-us12"),
    "random": ("got {} back", BODY + "Xy9"),
    # programs
    "sshpass": ("sshpass -p {} ssh h", "hunter2"),
    "docker login": ("docker login -u me -p {} ghcr.io", "hunter2"),
    "docker login by stdin": ("echo {} | docker login -u me --password-stdin", "hunter2"),
    "chpasswd": ("echo '{}' | chpasswd", "root:hunter2"),
    "mysql": ("mysql -u me -p{} db", "hunter2"),
    "redis-cli": ("redis-cli -h x -a {} ping", "hunter2"),
    "wandb": ("wandb login {}", HEX + "deadbeef"),
    "kubectl": ("kubectl create secret generic x --from-literal=password={}", "hunter2"),
    "openssl": ("openssl enc -aes-256-cbc -pass pass:{}", "hunter2"),
    "sql": ("CREATE USER me IDENTIFIED BY '{}'", "red fox"),
    "postgres role": ("ALTER ROLE me WITH PASSWORD '{}'", "red fox"),
    "aws configure": ("aws configure set aws_secret_access_key {}", PLAIN),
    "build argument": ("docker build --build-arg HF_TOKEN={} .", PLAIN),
    "braces": ('DB_PASS="{}"', "{curly}"),
    "cookie in a dockerfile": ("ENV MY_COOKIE {}", PLAIN),
    "signature in a tuple": ("('SIGNATURE', '{}')", "abc123def456ghi7"),
    "old vault": ("got s.{}", BODY[:24]),
    "braintree": ("got access_token$production${}", HEX[:16]),
    "redis settings": ("requirepass {}", "hunter2"),
}


@pytest.mark.parametrize("maker", MAKERS.split())
def test_tokens_of_makers_are_masked_wherever_they_stand(maker: str) -> None:
    for text in ("got {} here", "x={}", '"{}"', "/{}/", "({})"):
        assert BODY not in masked(text.format(maker + BODY)), text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("around", ["{}", "INFO 11-26 10:00:00 [api.py:1] {}", "(APIServer pid=1) {}"])
def test_what_follows_a_secret_name_is_masked_in_every_notation(form: str, around: str) -> None:
    text, secret = FORMS[form]
    if around != "{}" and (text.startswith(("requirepass", "[pypi]", "db.host")) or "\n" in text):
        return
    found = masked(around.format(text.format(secret)))
    for word in secret.split():
        assert word not in found
    assert masked(found) == found


STAYS = [
    "max_tokens=128, token usage: 0.25, gen throughput (token/s): 201.94",
    "GET https://host:8000/v1/models",
    "nodes=ssh://me@one:2222/run/docker.sock,me@two",
    "NCCL_SOCKET_IFNAME=enp1s0f0np0",
    "KV cache size: 123,456 tokens",
    "Tokenizer: /models/tokenizer.json",
    "TOKENIZERS_PARALLELISM=false",
    "api_key=None, hf_token=None, ssl_keyfile=None, ssl_keyfile_password=None, admin_api_key=None",
    "tokenizer='Qwen/Qwen3-8B', tokenizer_mode=auto, skip_tokenizer_init=False, tokenizer_revision=None",
    "eos_token='</s>', pad_token: <|endoftext|>, bos_token_id=1, stop_token_ids=[1, 2], image_token='<image>'",
    "'pass_config': {'fuse_norm_quant': False, 'fuse_act_quant': False}",
    "PWD=/root",
    "docker run -u 1000:1000 -p 8000:8000 image",
    "ghcr.io/owner/image:1.2@sha256:" + HEX + HEX,
    "revision " + HEX + "deadbeef",
    "git+https://github.com/vllm-project/vllm@v0.19.1",
    '--api-key "$VLLM_API_KEY" --port 8000',
    "api_key=${VLLM_API_KEY}",
    "--api-key {api_key}",
    "num_key_value_heads=8, key_cache=torch.Size([2, 16]), cache_key=abc",
    "Bearer token authentication is required",
    "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEE",
    "Prompt tokens: 12, generation tokens: 34, Avg prompt throughput: 1.2 tokens/s",
    "secretName: my-secret",
    "POST /v1/chat/completions HTTP/1.1 200 OK",
    "Invalid token: expected end of file",
]


@pytest.mark.parametrize("text", STAYS)
def test_other_texts_stay(text: str) -> None:
    assert masked(text) == text


def test_variables_are_masked_by_their_names() -> None:
    hidden = [
        "HF_TOKEN",
        "MY_API_KEY",
        "DB_PASS",
        "MYSQL_PWD",
        "SESSION",
        "BEARER",
        "PASSWORD",
        "SENTRY_DSN",
        "SLACK_WEBHOOK",
        "SLACK_WEBHOOK_URL",
        "AUTH",
        "REDISCLI_AUTH",
        "COOKIE",
        "SECRET",
        "AWS_ACCESS_KEY_ID",
        "CREDENTIALS",
        "SIGNING_KEY",
        "KEY",
        "TOKEN",
        "DBPASS",
        "PGPASSWORD",
        "MY_JWT",
        "MY_SALT",
    ]
    shown = {
        "NCCL_DEBUG": "INFO", "EMPTY_TOKEN": "", "PWD": "/root", "TOKENIZERS_PARALLELISM": "false",
        "VLLM_MAX_TOKENS": "1", "KEYBOARD": "us", "PATH": "/bin", "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }  # fmt: skip
    found = masked_environment({**dict.fromkeys(hidden, "x"), **shown, "URL": "mysql://me:hunter2@h"})
    assert found == {**dict.fromkeys(hidden, "***"), **shown, "URL": "mysql://***@h"}


def test_secrets_of_the_environment_are_masked_wherever_they_stand() -> None:
    environment = {
        "DB_PASS": "a b/'\"c",
        "PIN_TOKEN": "4711",
        "SESSION": "blue",
        "URL": "mysql://me:hunter2@h/db",
        "MODE": "fast",
        "OTHER_TOKEN": "None",
    }
    known = secrets_of(environment)
    assert set(known) == {"a b/'\"c", "4711", "blue", "hunter2"}
    texts = [
        "using a b/'\"c now", json.dumps({"x": "a b/'\"c"}), repr(["a b/'\"c"]), "a%20b%2F%27%22c", "a+b%2F%27%22c",
        shlex.quote("a b/'\"c"), "code 4711!", "it is blue", "pass hunter2", "x=hunter2y",
    ]  # fmt: skip
    for text in texts[:-1]:
        found = masked(text, known)
        assert "***" in found, text
        assert not any(one in found for one in ("4711", "blue", "hunter2", '"c'))
    assert masked("port 14711, bluer, fast, None", known) == "port 14711, bluer, fast, None"


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("--api-key", Level.STRONG),
        ("db.password", Level.STRONG),
        ("HF_TOKEN", Level.STRONG),
        ("Authorization", Level.HEADER),
        ("token", Level.WEAK),
        ("dict_key", Level.RANDOM),
        ("tokenizer", Level.NONE),
        ("max_tokens", Level.NONE),
        ("eos_token", Level.NONE),
        ("password_file", Level.NONE),
        ("keyboard", Level.NONE),
        ("monkey", Level.NONE),
        ("key_data", Level.RANDOM),
        ("image_data", Level.NONE),
        ("key_frames", Level.NONE),
    ],
)
def test_a_name_says_how_much_it_means_a_secret(name: str, level: Level) -> None:
    assert level_of(name) is level


def test_a_bundle_hides_secrets_of_containers_in_every_file() -> None:
    content = bundle({"logs/x.log": "connected as hunter2\n", "plans/x.json": '{"x": "hunter2"}'}, ["hunter2"])
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        texts = [(tar.extractfile(one) or io.BytesIO()).read() for one in tar]
    assert not any(b"hunter2" in text for text in texts)
    assert secrets_in("vllm serve M --api-key hunter2-and-more --port 8000") == ("hunter2-and-more",)


def test_halves_of_characters_are_no_error() -> None:
    assert masked("\udcff HF_TOKEN=swordfish \ud800").count("***") == 1


def test_a_secret_of_some_length_is_hidden_in_base64_too() -> None:
    value = "correct-horse-battery"
    encoded = base64.b64encode(value.encode()).decode().rstrip("=")
    assert encoded not in masked(f"header {encoded} end", [value])
    short = base64.b64encode(b"blue").decode().rstrip("=")
    assert short in masked(f"header {short} end", ["blue"])
