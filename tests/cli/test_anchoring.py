"""proof, witness and anchor, as an author, a witness and an auditor type them."""

import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.labs import LabFolder
from tests.registry.authority import Authority, serving
from workbench.registry.notes import VerifierKey
from workbench.registry.personal_keys import create_personal_key


@pytest.fixture
def published_lab(registered_lab: LabFolder) -> LabFolder:
    registered_lab.open().publish()
    return registered_lab


@pytest.fixture
def vkey(published_lab: LabFolder) -> str:
    return (published_lab.root / "registry" / "log.vkey").read_text().strip()


@pytest.fixture
def witness_key(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "witness.key"
    return path, str(create_personal_key(path, "witness.example/w1", "witness"))


@pytest.fixture
def cosign(
    workbench: Command, published_lab: LabFolder, vkey: str, witness_key: tuple[Path, str],
    tmp_path: Path,
) -> Callable[..., Path]:  # fmt: skip
    def run(*arguments: str) -> Path:
        out = tmp_path / "note"
        said = workbench(
            "witness", "--from", str(published_lab.root / "registry"), "--key", str(witness_key[0]),
            "--state", str(tmp_path / "state"), "--log-key", vkey, "--out", str(out), *arguments,
            lab=tmp_path,
        )  # fmt: skip
        assert said.code == 0, said.err
        assert f"--witness {witness_key[1]}" in said.out
        return out

    return run


def test_proof_of_an_experiment_verifies_far_from_the_lab(
    published_lab: LabFolder, workbench: Command, vkey: str, tmp_path: Path
) -> None:
    said = workbench("proof", "1", "--out", str(tmp_path / "one.tlog-proof"), lab=published_lab)
    assert said.code == 0
    shutil.rmtree(published_lab.home)
    verify = ["verify", "--proof", str(tmp_path / "one.tlog-proof"), "--key", vkey]
    said = workbench(*verify, lab=tmp_path)
    assert said.code == 0
    assert "PROVED    registration of 0001-does-code-help is entry 1" in said.out
    assert "\ntitle     Does code help\n" in said.out
    assert "\nclaim     H1: superior(0.02) on bpb_macro\n" in said.out
    assert "amendments, a withdrawal or a verdict after it are not in this proof" in said.out
    told = json.loads(workbench(*verify, "--json", lab=tmp_path).out)
    assert told["passed"]
    assert told["entry"]["body"]["title"] == "Does code help"


def test_proof_without_out_is_a_file_and_the_key_is_told(
    published_lab: LabFolder, workbench: Command, vkey: str
) -> None:
    for arguments, name in (
        (("1",), "0001"), (("1", "--kind", "anchor"), "0001-anchor"), (("--entry", "0"), "entry-0"),
    ):  # fmt: skip
        said = workbench("proof", *arguments, lab=published_lab)
        assert f"Wrote {name}.tlog-proof" in said.out
        assert max(map(len, said.out.splitlines()[:-1])) <= 80
        command = said.out.split("workbench verify ", 1)[1].replace("\\\n", "").split()
        assert command[-1] == vkey
        assert workbench("verify", *command, lab=published_lab).code == 0


def test_proof_is_printed_on_request_and_of_any_entry(
    published_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("proof", "--entry", "0", "--out", "-", lab=published_lab)
    assert said.out.startswith("c2sp.org/tlog-proof@v1\nextra ")
    assert "\nindex 0\n" in said.out
    anchor = ("proof", "1", "--kind", "anchor", "--out", "-")
    assert "\nindex 2\n" in workbench(*anchor, lab=published_lab).out


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ((), 3, "one entry: give an experiment or --entry"),
        (("1", "--entry", "0"), 3, "one entry: give an experiment or --entry"),
        (("1", "--kind", "verdict"), 9, "has no verdict in the published ledger"),
        (("1", "--kind", "verdict"), 9, "workbench status; what was recorded since"),
        (("1", "--kind", "foo"), 3, "'foo' is no kind of entry"),
        (("1", "--kind", "foo"), 3, "one of amendment, anchor, approval,"),
        (("--entry", "99"), 9, "entry 99 is not under the head"),
        (("7",), 9, "does not exist"),
    ],
)
def test_proof_of_nothing_is_refused(
    published_lab: LabFolder, workbench: Command, arguments: tuple[str, ...], code: int, told: str
) -> None:
    said = workbench("proof", *arguments, lab=published_lab)
    assert (said.code, told in said.err) == (code, True), said.err


def test_proof_before_publication_says_to_publish(
    registered_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("proof", "1", lab=registered_lab)
    assert (said.code, "workbench publish" in said.err) == (9, True)


def test_changed_proof_fails_with_exit_code_6(
    published_lab: LabFolder, workbench: Command, vkey: str, tmp_path: Path
) -> None:
    path = tmp_path / "one.tlog-proof"
    workbench("proof", "1", "--out", str(path), lab=published_lab)
    path.write_text(path.read_text("utf-8").replace("index 1", "index 2"), "utf-8")
    said = workbench("verify", "--proof", str(path), "--key", vkey)
    assert said.code == 6
    assert "FAILED    p3, inclusion" in said.out
    said = workbench("verify", "--proof", str(path))
    assert (said.code, "a key that you have from elsewhere" in said.err) == (3, True)


def test_witness_cosigns_and_the_lab_keeps_it_and_verify_tells_it(
    published_lab: LabFolder, workbench: Command, vkey: str, witness_key: tuple[Path, str],
    cosign: Callable[..., Path], tmp_path: Path,
) -> None:  # fmt: skip
    note = cosign()
    said = workbench(
        "anchor", "--cosigned", str(note), "--witness", witness_key[1], lab=published_lab
    )
    assert said.code == 0
    assert "cosigned by witness.example/w1" in workbench("anchor", lab=published_lab).out
    (anchor,) = json.loads(workbench("anchor", "--json", lab=published_lab).out)["anchors"]
    assert (anchor["kind"], anchor["trusted"]) == ("witness", False)
    said = workbench("verify", "--witness", witness_key[1], lab=published_lab)
    assert said.code == 0
    assert "1 by witness; the newest covers" in said.out
    assert "cosigned by witness.example/w1 (by a key that you named)" in said.out
    proof = tmp_path / "one.tlog-proof"
    workbench("proof", "1", "--out", str(proof), lab=published_lab)
    said = workbench("verify", "--proof", str(proof), "--key", vkey, "--witness", witness_key[1])
    assert said.code == 0
    assert "ok   p7  witnesses: witness.example/w1 at 20" in said.out


def test_key_of_the_wrong_kind_names_how_to_make_the_right_one(
    published_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    path = tmp_path / "bob.key"
    make = ("keys", "new", "bob", "--out", str(path))
    vkey = workbench(*make, lab=published_lab).out.split("Public key   ")[1].split("\n")[0]
    again = workbench(*make, lab=published_lab)
    assert "workbench keys new bob --out FILE" in again.err
    witness = ("witness", "--from", "registry", "--state", str(tmp_path / "s"), "--key", str(path))
    for command in (witness, ("verify", "--witness", vkey)):
        said = workbench(*command, lab=published_lab)
        assert said.code == 6
        assert "workbench keys new NAME --witness makes one" in said.err


def test_witness_refuses_a_log_that_was_rolled_back(
    published_lab: LabFolder, workbench: Command, cosign: Callable[..., Path], tmp_path: Path,
    witness_key: tuple[Path, str],
) -> None:  # fmt: skip
    shutil.copytree(published_lab.root / "registry", tmp_path / "older")
    lab = published_lab.open()
    lab.note("more")
    lab.publish()
    cosign()
    said = workbench(
        "witness", "--from", str(tmp_path / "older"), "--key", str(witness_key[0]),
        "--state", str(tmp_path / "state"), lab=tmp_path,
    )  # fmt: skip
    assert said.code == 6
    assert "was rolled back" in said.err
    assert len([f for f in (tmp_path / "state").rglob("evidence/*/*") if f.is_file()]) == 2


@pytest.fixture
def website(published_lab: LabFolder) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = partial(Quiet, directory=str(published_lab.root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/registry"
    server.shutdown()
    thread.join()
    server.server_close()


def test_witness_reads_the_log_from_the_web(
    workbench: Command, website: str, vkey: str, witness_key: tuple[Path, str], tmp_path: Path
) -> None:
    said = workbench(
        "witness", "--from", website, "--key", str(witness_key[0]), "--state",
        str(tmp_path / "state"), "--log-key", vkey, "--json", lab=tmp_path,
    )  # fmt: skip
    told = json.loads(said.out)
    assert (told["size"], told["before"], told["witness"]) == (3, 0, witness_key[1])
    said = workbench(
        "witness", "--from", website, "--key", str(witness_key[0]), "--state",
        str(tmp_path / "state"), lab=tmp_path,
    )  # fmt: skip
    assert said.out.count("\n— ") == 2


def test_cosigned_note_without_its_witness_is_refused(
    published_lab: LabFolder, workbench: Command, cosign: Callable[..., Path], vkey: str
) -> None:
    note = str(cosign())
    said = workbench("anchor", "--cosigned", note, lab=published_lab)
    assert (said.code, "needs the key of its witness" in said.err) == (3, True)
    other = str(VerifierKey.parse(vkey))
    said = workbench("anchor", "--cosigned", note, "--witness", other, lab=published_lab)
    assert (said.code, "witness's cosigning" in said.err) == (6, True)


def test_lab_without_anchors_says_how_to_get_one(
    published_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("anchor", lab=published_lab)
    assert (said.code, "workbench anchor --tsa URL" in said.out) == (0, True)


def test_published_head_in_a_commit_is_an_anchor(
    published_lab: LabFolder, workbench: Command
) -> None:
    published_lab.commit("Publish")
    said = workbench("verify", lab=published_lab)
    assert said.code == 0
    assert "1 in git commits; the newest covers 3 entries" in said.out
    assert "?, git commit " in said.out
    assert "the git commit: as far as you trust who made it" in said.out


def test_kept_chronicle_convicts_a_log_that_was_cut_back(
    decided_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    (kept,) = (decided_lab.root / "reports").rglob("chronicle.md")
    for path in (kept, kept.with_suffix(".html")):
        said = workbench("verify", "--report", str(path), lab=decided_lab)
        assert said.code == 0
        assert "1 in kept reports" in said.out
        assert f"not later than    the moment you kept {path}, which prints the head (" in said.out
    text = kept.read_text("utf-8")
    (size,) = {e.sequence + 1 for e in decided_lab.entries() if f"\n{e.sequence + 1}\n" in text}
    kept.write_text(text.replace(f"\n{size}\n", f"\n{size - 1}\n"), "utf-8")
    said = workbench("verify", "--report", str(kept), lab=decided_lab)
    assert said.code == 6
    assert "FAILED    an anchor contradicts the log" in said.out
    said = workbench("verify", "--report", str(tmp_path / "none"), lab=decided_lab)
    assert (said.code, "cannot be read" in said.err) == (3, True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    pytest.importorskip("rfc3161_client")
    if shutil.which("openssl") is None:
        pytest.skip("openssl plays the authority")
    return Authority.create(tmp_path_factory.mktemp("tsa") / "a", "First TSA")


def test_head_stamped_by_two_authorities_bounds_the_registration(
    published_lab: LabFolder, workbench: Command, authority: Authority, tmp_path: Path
) -> None:
    second = Authority.create(tmp_path / "b", "Second TSA")
    with serving(authority) as one, serving(second) as two:
        said = workbench("anchor", "--tsa", one, "--tsa", two, lab=published_lab)
    assert said.code == 0, said.err
    assert "CN=First TSA saw it at 20" in said.out
    assert "CN=Second TSA saw it at 20" in said.out
    root = str(authority.folder / "root.pem")
    said = workbench("verify", "--tsa-root", root, lab=published_lab)
    assert said.code == 0
    assert "2 by time stamp" in said.out
    assert "time stamp by CN=First TSA (checked up to a root certificate" in said.out
    assert "own clock" not in said.out
    for arguments in ((), ("--from", "registry")):
        said = workbench("verify", *arguments, lab=published_lab)
        (told,) = (line for line in said.out.splitlines() if "not later than" in line)
        assert told.startswith("  not later than    20")
        assert "Z?, time stamp by CN=" in told
        assert "not checked against a root certificate: give one with --tsa-root PEM" in told


def test_authority_that_fails_after_another_leaves_what_was_got(
    published_lab: LabFolder, workbench: Command, authority: Authority
) -> None:
    with serving(authority) as one, serving(500) as two:
        said = workbench("anchor", "--tsa", one, "--tsa", two, lab=published_lab)
    assert said.code == 10
    assert "gave no time stamp" in said.err
    assert "time stamp by CN=First TSA" in workbench("anchor", lab=published_lab).out


def test_head_stamped_by_hand_is_kept_though_the_log_grew(
    published_lab: LabFolder, workbench: Command, authority: Authority, tmp_path: Path
) -> None:
    query, response = tmp_path / "q.tsq", tmp_path / "r.tsr"
    said = workbench("anchor", "--query", str(query), lab=published_lab)
    assert (said.code, "anchors/3-" in said.out) == (0, True)
    assert "curl -H 'Content-Type: application/timestamp-query' --data-binary @" in said.out
    lab = published_lab.open()
    lab.note("more")
    lab.publish()
    response.write_bytes(authority.reply(query.read_bytes()))
    said = workbench("anchor", "--response", str(response), lab=published_lab)
    assert (said.code, "anchors/3-" in said.out) == (0, True)
    (published_lab.root / "registry" / "anchors").rename(tmp_path / "gone")
    said = workbench("anchor", "--response", str(response), lab=published_lab)
    assert (said.code, "not over one of 1 published heads" in said.err) == (6, True)


def test_head_stamped_with_openssl_alone_is_kept(
    published_lab: LabFolder, workbench: Command, authority: Authority, tmp_path: Path
) -> None:
    """The commands of record-format.md."""
    workbench("anchor", "--query", str(tmp_path / "unused"), lab=published_lab)
    (head,) = (published_lab.root / "registry" / "anchors").glob("*/head")
    command = ["openssl", "ts", "-query", "-data", str(head), "-sha256", "-cert",
               "-out", str(tmp_path / "q.tsq")]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "r.tsr").write_bytes(authority.reply((tmp_path / "q.tsq").read_bytes()))
    said = workbench("anchor", "--response", str(tmp_path / "r.tsr"), lab=published_lab)
    assert said.code == 0, said.err


def test_without_the_extra_stamps_are_listed_as_unchecked(
    published_lab: LabFolder, workbench: Command, authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with serving(authority) as one:
        workbench("anchor", "--tsa", one, lab=published_lab)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    said = workbench("verify", lab=published_lab)
    assert said.code == 0
    assert "not later than    a time that was not read, time stamp by" in said.out
    assert "not checked: pip install 'pretrain-workbench[timestamps]'" in said.out
    said = workbench("anchor", "--tsa", "http://127.0.0.1:9/", lab=published_lab)
    assert (said.code, "pretrain-workbench[timestamps]" in said.err) == (7, True)
