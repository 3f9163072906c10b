"""Families: addresses, ports, RoCE, the Hub. Pure."""

import re
from typing import Final

from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.error_case import Case

LOOPBACK: Final = re.compile(r"(?:remote=|connect(?:ing)? to |\[)\[?(?P<address>127\.0\.0\.1|127\.0\.1\.1|::1)\]?")
GLOO: Final = re.compile(r"Gloo|gloo|connectFullMesh")
NO_INTERFACE: Final = re.compile(
    r"Unable to find address for:? (?P<name>\S{1,60})|no socket interface found|Unable to find interface "
    r"(?P<other>\S{1,60})"
)
CANNOT_REACH: Final = re.compile(
    (
        r"timed out|[Cc]onnection refused|No route to host|Network is unreachable|failed to connect|"
        r"connectFullMesh failed|TCPStore.{0,80}(?:timeout|timed)|client socket has (?:failed|timed)"
    ),
    re.I,
)
PEERS: Final = re.compile(
    (
        r"gloo|TCPStore|rendezvous|socketStartConnect|ncclCommInitRank|torch\.distributed|init_process_group|"
        r"RendezvousTimeout|DistNetworkError|DistStoreError|placement group|ray (?:start|cluster)|raylet"
    ),
    re.I,
)
REMOTE: Final = re.compile(r"(?P<address>\d{1,3}(?:\.\d{1,3}){3})\]?[:<, ]+(?:port )?(?P<port>\d{2,5})")
IN_USE: Final = re.compile(
    r"[Aa]ddress already in use|EADDRINUSE|[Pp]ort (?P<number>\d{2,5}) (?:is )?(?:already )?(?:in use|occupied|"
    r"not available|unavailable)|bind.{0,60}already allocated|port is already allocated"
)
PORT: Final = re.compile(r"(?:port[:=]? ?|\d:)(?P<port>\d{2,5})\b")
QP: Final = re.compile(
    r"(?:ibv_modify_qp|modify_qp).{0,40}?(?:failed|error)?.{0,30}?(?P<number>\b(?:19|22|61|101|110|113)\b)"
    r"(?P<words>[\w ]{0,40})?,?(?: on)?(?: dev (?P<device>[\w]{2,30}))?(?:.{0,120}?local GID index "
    r"(?P<index>\d{1,3}), local GID (?P<gid>[0-9a-fA-F:.]{2,45}))?"
)
DUPLICATE: Final = re.compile(r"Duplicate GPU detected ?: rank (?P<one>\d{1,4}) and rank (?P<two>\d{1,4})")
CABLE: Final = re.compile(
    (
        r"(?:link (?:is )?down|NO-CARRIER|Link down|port error|IBV_EVENT_PORT_ERR|got completion.{0,80}(?:error|"
        r"status) ?=? ?(?:12|5)|local access violation|transport retry counter exceeded|async event : port error)"
    ),
    re.I,
)
HUB_HOST: Final = re.compile(
    (
        r"huggingface\.co|hf\.co|hf-mirror|cas-bridge|modelscope|xethub|Hugging ?Face|[Rr]epository ID|HfHub|"
        r"hf_hub|repo id|"
        r"Repo(?:sitory)?NotFound"
    ),
    re.I,
)
TLS: Final = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|SSLError|certificate verify failed|SSLCertVerificationError|self[- ]signed "
    r"certificate"
)
PROXY: Final = re.compile(r"ProxyError|407 Proxy|Tunnel connection failed|Cannot connect to proxy")
DNS: Final = re.compile(
    r"Name or service not known|Temporary failure in name resolution|nodename nor servname|getaddrinfo failed|"
    r"Failed to resolve|NameResolutionError"
)
GATED: Final = re.compile(
    r"GatedRepo|gated repo|401 Client Error|403 Client Error|Invalid credentials|Access to model .{1,120} is "
    r"restricted|awaiting a review"
)
ABSENT: Final = re.compile(
    r"RepositoryNotFound|404 Client Error|is not a local folder and is not a valid model identifier|"
    r"RevisionNotFound|EntryNotFound|Repo id must be|Invalid repository ID|not a valid (?:model )?(?:identifier|"
    r"HuggingFace)"
)
OFFLINE: Final = re.compile(
    r"LocalEntryNotFound|OfflineModeIsEnabled|outgoing traffic has been disabled|couldn't connect to "
    r"'https://huggingface|Cannot reach https://huggingface|HF_HUB_OFFLINE|local_files_only"
)
PARTIAL: Final = re.compile(r"416 Client Error|Requested Range Not Satisfiable")
SERVER_SIDE: Final = re.compile(
    r"\b50[0234] Server Error|Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out"
)
NO_FILE: Final = re.compile(
    r"(?:does not appear to have|do not have|has no) (?:any |a )?files? named \(?(?P<file>['\"]?[\w./*-]{2,160})"
)
FAST: Final = re.compile(
    r"hf_transfer|\bCAS (?:service|client)|\bxet (?:client|runtime|download|error)|hf_xet|Background writer channel",
    re.I,
)
"""Ways of downloading beside plain HTTP, which can be switched off. An address at the Hub may have xet in it, too."""
LIMITED: Final = re.compile(r"429 (?:Client Error|Too Many)|Too Many Requests|rate.?limit", re.I)


def address_of_another_network(case: Case) -> Verdict | None:
    """Ranks that look for each other at an address where the other is not."""
    text = case.text
    missing = NO_INTERFACE.search(text)
    if missing:
        name = missing["name"] or missing["other"] or ""
        nccl = (
            " NCCL_SOCKET_IFNAME takes ^name and lists; GLOO_SOCKET_IFNAME takes names of this node alone."
            if name.startswith("^") or "," in name
            else ""
        )
        return Verdict(
            code="interface-is-not-there",
            meaning=(
                f"This node has no interface {name or 'of that name'}: the value of GLOO_SOCKET_IFNAME (or "
                f"NCCL_SOCKET_IFNAME) is of another node, or no plain name.{nccl}"
            ),
            action=(
                "Set GLOO_SOCKET_IFNAME on each node to its own interface of the network between the nodes: "
                "`ip route get HEAD_ADDRESS` names it. ./build.py run does so."
            ),
            evidence="Gloo looks the name up among the interfaces; aws-do-eks PR#51, vllm PR#40991",
        )
    gloo, peers = GLOO.search(text), PEERS.search(f"{case.raised.type} {text}")
    if not (gloo or peers) or not CANNOT_REACH.search(text):
        return None
    loop = LOOPBACK.search(text)
    reached = REMOTE.search(text)
    at = f" ({reached['address']} port {reached['port']})" if reached else ""
    fabric = next(iter(case.scan.facts.fabric.items()), None)
    named = f" NCCL took {fabric[1]} of {fabric[0]}." if fabric else ""
    if loop or (gloo and reached is None):
        where = f" ({loop['address']})" if loop else ""
        meaning = (
            f"A rank offers its loopback address{where} to ranks on other nodes, so they cannot reach it: its "
            f"host name resolves to 127.0.0.1 or to nothing.{named}"
        )
        action = (
            "Set GLOO_SOCKET_IFNAME (and NCCL_SOCKET_IFNAME) on each node to its interface of the network "
            "between the nodes, and VLLM_HOST_IP or SGLANG_HOST_IP to its address there; or mend /etc/hosts."
        )
    else:
        meaning = (
            f"A rank cannot reach another one{at}.{named} The address is of another network, the other rank is "
            f"not there yet or has died, or a firewall stands between."
        )
        action = (
            "Read the other node's log: did it start, and with the same head address and port? On each "
            "node `ip route get ADDRESS` must name the ConnectX interface; "
            "set GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME and VLLM_HOST_IP or SGLANG_HOST_IP to it. `nc -zv "
            "ADDRESS PORT` shows a firewall."
        )
    return Verdict(
        code="address-of-another-network",
        meaning=meaning,
        action=action,
        evidence=(
            "the address of the message; aws-do-eks PR#50, aws-do-eks PR#69, vllm#7074, MiaAI Qwen3.8-Flash-Next-Dual#3"
        ),
    )


OF_A_PARENT: Final = re.compile(
    r"/multiprocessing/(?:synchronize|shared_memory|reduction|resource_sharer|managers)\.py$"
)


def objects_of_another_process(case: Case) -> Verdict | None:
    """Semaphores and shared memory of a parent process that is not there: it ended, or it is on another node."""
    if case.raised.name not in ("FileNotFoundError", "ConnectionRefusedError", "EOFError", "AuthenticationError"):
        return None
    if not any(OF_A_PARENT.search(frame.file) for frame in case.raised.frames[-3:]):
        return None
    return Verdict(
        code="objects-of-another-process",
        meaning=(
            "A worker was handed a semaphore or shared memory of another process, and it is not there: the parent has "
            "ended, or it runs on another node or in another container, where /dev/shm is another one."
        ),
        action=(
            "If the parent ended first, its log has the cause. On several nodes multiprocessing needs one parent on "
            "each node: start the engine on each (--nnodes 2 --node-rank …, --distributed-executor-backend mp), or let "
            "Ray do it (--distributed-executor-backend ray). A newer image may have another default than before."
        ),
        evidence="where Python opens the object again; spark-arena/recipe-registry#13",
    )


def port_is_taken(case: Case) -> Verdict | None:
    """A port that another process listens on."""
    found = IN_USE.search(f"{case.raised.type}: {case.text}")
    if found is None:
        return None
    number = found["number"] or next((one["port"] for one in PORT.finditer(case.text)), None)
    port = f"port {number}" if number else "a port"
    return Verdict(
        code="port-is-taken",
        meaning=(
            f"Another process listens on {port} already: a server that did not end, or two services with the "
            f"same ports. Engines take more ports than --port: those of the ranks, too."
        ),
        action=f"`ss -ltnp{f' sport = :{number}' if number else ''}` names the process; end it, or give this "
        "service other ports (--port; vLLM VLLM_PORT, --master-port; SGLang --nccl-port, --dist-init-addr). "
        "./build.py status lists services that run.",
        evidence="EADDRINUSE of the kernel; sglang#17402, vllm#15987",
    )


def roce_address(case: Case) -> Verdict | None:
    """RoCE that cannot connect: GID, route, cable, network namespace."""
    found = QP.search(case.text)
    if found is not None:
        number, device, gid = found["number"], found["device"] or "the adapter", found["gid"] or ""
        index = f" (GID index {found['index']})" if found["index"] else ""
        empty = gid in ("::", "0:0:0:0:0:0:0:0") or (number in ("61", "101") and not gid)
        link = gid.lower().startswith("fe80")
        if number == "19":
            meaning = (
                f"{device} is not a device of this container's network namespace: RDMA shows the host's "
                f"adapters to a pod, and the kernel refuses them."
            )
            action = (
                "Run with the host's network (--network host, hostNetwork: true), or give the pod a virtual "
                "function of its own (SR-IOV with Multus)."
            )
        elif empty or link or number in ("22", "61", "101"):
            what = (
                "is a link-local address (fe80::)"
                if link
                else "is empty"
                if empty
                else f"({gid or 'none'}) does not fit the other side's"
            )
            meaning = (
                f"{device} has no usable address for RoCE: its GID{index} {what}. RoCE v2 over IPv4 needs a "
                f"GID of the form ::ffff:ADDRESS, which is there when its interface has an IPv4 address."
            )
            action = (
                f"Give the interface of {device} an IPv4 address, or leave it out (NCCL_IB_HCA). Leave "
                f"NCCL_IB_GID_INDEX unset, or look it up on each node (`show_gids`): the index differs. "
                f"./build.py cluster check shows it."
            )
        else:
            meaning = (
                f"{device} got no answer from the other side ({number}): no cable or route between these two "
                f"ports{index}."
            )
            action = (
                f"Is the cable of {device} plugged into the port whose address is asked? `ip route get`, `ping "
                f"-I`, then ib_write_bw between both. In a ring of more than two nodes not every pair has a "
                f"cable: NCCL needs a switch, or NCCL_IB_HCA with pairs that are joined."
            )
        return Verdict(
            code="roce-cannot-connect",
            meaning=meaning,
            action=action,
            evidence=(
                "ibv_modify_qp's error number and the GIDs of the message; DSpark PR#10, nccl-tests#185, minefield 114"
            ),
        )
    duplicate = DUPLICATE.search(case.text)
    if duplicate:
        return Verdict(
            code="two-ranks-on-one-gpu",
            meaning=(
                f"Rank {duplicate['one']} and rank {duplicate['two']} are on the same GPU. A GB10 has one GPU: "
                f"each rank needs a node of its own."
            ),
            action=(
                "--tensor-parallel-size 1 on one Spark; for two Sparks start one rank on each (--nnodes 2, "
                "--node-rank 0 and 1), and not two on one."
            ),
            evidence="NCCL's own check",
        )
    if CABLE.search(case.text) and re.search(r"NCCL|mlx5|ibv|rocep|enp", case.text):
        return Verdict(
            code="roce-link-lost",
            meaning="The RoCE link was lost or lost packets: cable, port or adapter.",
            action=(
                "`ip -s link`, `ethtool` and dmesg of both nodes; press the cable in; ./build.py cluster "
                "check. After an adapter's error a cold start (power cable out) helps."
            ),
            evidence="DSpark#146, playbooks PR#108",
        )
    return None


def _refusal_of_the_hub(text: str, model: str) -> tuple[str, str, str] | None:
    """Code, meaning and action of what plain HTTP meets as well as a faster way of downloading."""
    if TLS.search(text):
        return (
            "hub-certificate",
            "The certificate of the Hub is not accepted: a proxy with its own certificate stands between.",
            "Put the proxy's CA into the container and set REQUESTS_CA_BUNDLE and SSL_CERT_FILE; or download "
            "outside (./build.py weights pull) and start with HF_HUB_OFFLINE=1.",
        )
    if PROXY.search(text):
        return (
            "hub-proxy",
            "The proxy refuses or is not reached.",
            "Set HTTPS_PROXY (with its login) in the container, and NO_PROXY for the addresses of the nodes; "
            "or download outside and start with HF_HUB_OFFLINE=1.",
        )
    if GATED.search(text):
        return (
            "hub-refuses",
            f"The Hub does not give {model} to this account: it is gated, or the token is missing or wrong.",
            "Accept the licence on the model's page, and set HF_TOKEN in the container (it is not inherited "
            "from the host).",
        )
    if LIMITED.search(text) and not SERVER_SIDE.search(text):
        return (
            "hub-limits",
            "The Hub limits how often this address may ask.",
            "Set HF_TOKEN, wait some minutes, or start with HF_HUB_OFFLINE=1 and a full cache.",
        )
    return None


def hub(case: Case) -> Verdict | None:
    """The Hub cannot be reached, refuses, or has no such model."""
    text = f"{case.raised.type}: {case.text}"
    about = HUB_HOST.search(text) or HUB_HOST.search(" ".join(case.packages)) or "huggingface_hub" in case.packages
    if not about:
        return None
    model = case.scan.start.option("model", "model_path", "model_tag") or "the model"
    code, meaning, action = "", "", ""
    missing = NO_FILE.search(text)
    file = re.sub(r"^['\"]|[.'\"]+$", "", missing["file"]) if missing else ""
    refused = _refusal_of_the_hub(text, model)
    if refused and not missing:
        code, meaning, action = refused
    elif FAST.search(text):
        transfer = "hf_transfer" in text.lower()
        code, meaning = (
            "hub-download-fails",
            f"The faster way of downloading ({'hf_transfer' if transfer else 'Xet'}) fails: {case.first_line[:200]} It "
            "hides the reason: network, proxy, disk, or too many connections at once.",
        )
        action = (
            f"{'HF_HUB_ENABLE_HF_TRANSFER=0' if transfer else 'HF_HUB_DISABLE_XET=1'} downloads by plain HTTP, which "
            "goes on where it stopped and names the error. `df -h` of HF_HOME; a proxy must let the Hub's storage "
            "through, too; or ./build.py weights pull outside of the container."
        )
    elif PARTIAL.search(text):
        code, meaning = (
            "hub-download-fails",
            f"A download was to go on behind the end of its file (416): the part of {model} that is on the disk is as "
            "long as the file or longer, because two processes wrote it, or the file at the Hub changed.",
        )
        action = (
            "Delete the incomplete parts (find $HF_HOME -name '*.incomplete' -delete) and download again, by one "
            "process: ./build.py weights pull checks each file. Then start all ranks."
        )
    elif missing:
        code, meaning = (
            "hub-file-missing",
            f"The folder or repository of {model} has no {file}: a download that is not whole, another "
            "revision or format of the model (GGUF, adapters, an original checkpoint), or a name that is one "
            "folder off.",
        )
        action = (
            "Look at the repository's list of files: is it there? If so, the local copy is not whole: ./build.py "
            "weights pull, or `hf download` again. If not, name the repository or folder that has config.json and "
            "*.safetensors, or the loader for its format (--load-format, --tokenizer)."
        )
    elif SERVER_SIDE.search(text):
        code, meaning = "hub-fails", "The Hub, or a proxy before it, failed itself (an answer of 5xx)."
        action = (
            "Try again in some minutes; HF_ENDPOINT and proxies are the next suspects. With a full cache: "
            "HF_HUB_OFFLINE=1."
        )
    elif DNS.search(text) or OFFLINE.search(text) or (CANNOT_REACH.search(text) and not ABSENT.search(text)):
        code, meaning = (
            "hub-not-reached",
            (
                f"The Hub is not reached, or must not be (HF_HUB_OFFLINE=1), and files of {model} are not in the "
                f"cache that this process reads."
            ),
        )
        action = (
            "Is the cache's folder mounted where HF_HOME points in the container, and complete (./build.py "
            "weights pull checks each file)? Else give the container a network and DNS."
        )
    elif ABSENT.search(text):
        code, meaning = (
            "hub-has-no-such-model",
            (
                f"Neither the Hub nor this container has {model} under that name: a misspelling, a folder that is "
                f"not mounted, or a private repository."
            ),
        )
        action = (
            "A path must exist in the container (-v HOST:CONTAINER); a name has the form OWNER/NAME, as the "
            "Hub writes it; private ones need HF_TOKEN."
        )
    if not code:
        return None
    return Verdict(code=code, meaning=meaning, action=action, evidence="exceptions of huggingface_hub and requests")


CLOSED: Final = re.compile(
    r"^(?:ServerDisconnectedError|RemoteDisconnected|RemoteProtocolError|ClientOSError|ClientPayloadError|ReadError|"
    r"ReadTimeout|ReadTimeoutError|IncompleteRead|ChunkedEncodingError|APIConnectionError|APITimeoutError|"
    r"ServerTimeoutError|ConnectTimeout|ConnectError|ClientConnectorError|MaxRetryError)$"
)
CLIENTS: Final = frozenset(("aiohttp", "httpx", "httpcore", "requests", "urllib3", "openai", "http", "websockets"))


def server_closed_the_connection(case: Case) -> Verdict | None:
    """A client's exception: the server that it asks went away, or took longer than someone allows."""
    if not CLOSED.match(case.raised.name) or not (
        CLIENTS.intersection((*case.packages, case.raised.type.partition(".")[0]))
    ):
        return None
    late = "imeout" in case.raised.name
    refused = "Connect" in case.raised.name and not late
    what = "did not answer in time" if late else "cannot be reached" if refused else "closed the connection"
    return Verdict(
        code="server-closed-the-connection",
        meaning=(
            f"This log is of a client ({case.raised.text[:160].rstrip('.')}): the server that it asks {what}. The "
            "cause is on the server's side, or in a limit of time between both."
        ),
        action=(
            "Read the server's own log at that moment: did it end (memory, a crash), or start anew? If it goes on: "
            "fewer requests at once and shorter answers (max_tokens), a longer timeout of the client and of a proxy "
            "between them (nginx proxy_read_timeout), and retries. An exception that the client's own handler raises "
            "after it (UnboundLocalError, Session is closed) only hides this one."
        ),
        evidence="exceptions of HTTP clients: aiohttp, httpx, requests, urllib3",
    )


INIT: Final = re.compile(
    r"NCCL (?:error|WARN)[^\n]{0,200}?(?:unhandled system error|invalid usage|invalid argument|internal error)"
)


def adapters_named_for_all(case: Case) -> Verdict | None:
    """NCCL that does not start where variables name the adapters: their names and indices differ from node to node."""
    given = case.scan.facts.adapters
    starts = re.search(r"[Cc]omm_?[Ii]nit|pynccl|init_device|init_process_group", case.trace(6))
    if not given or not starts or not INIT.search(case.text):
        return None
    if any("NCCL WARN" in line.text for line in case.scan.trouble):
        return None  # NCCL itself says what is wrong
    named = ", ".join(f"{name}={value}" for name, value in given.items())
    return Verdict(
        code="adapters-named-by-hand",
        meaning=(
            f"NCCL does not start, and variables tell it which adapters to take: {named}. These names and the GID "
            "index are of one node: on another Spark the ports may have other names (rocep1s0f0, "
            "roceP2p1s0f1), be down, or have their IPv4 address at another index, which changes at a reboot, too."
        ),
        action=(
            "On each node: `ibdev2netdev` (or /sys/class/infiniband/*/ports/1/state) shows the ports that are ACTIVE, "
            "`show_gids` the index of RoCE v2 with the IPv4 address. Give each node its own NCCL_IB_HCA, ports of one "
            "network in the same order on both, or leave NCCL_IB_HCA and NCCL_IB_GID_INDEX out: NCCL finds both. "
            "./build.py cluster check compares the nodes."
        ),
        evidence="the variables that NCCL printed; DeepSeek-v4.1-Flash-DGX-Sparks PR#10, ainode PR#89",
    )


NETWORK_FAMILIES: Final = (
    adapters_named_for_all,
    port_is_taken,
    objects_of_another_process,
    hub,
    roce_address,
    address_of_another_network,
    server_closed_the_connection,
)
