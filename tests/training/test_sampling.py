"""The samples of a step of a real corpus, by name, and the windows that a run served."""

import json
import shutil

import pytest

from workbench.data.corpus import read_corpus
from workbench.data.manifest import DOCUMENTS_NAME
from workbench.errors import IntegrityError, NotFoundError
from workbench.training.sampling import run_stream, samples_at, served_windows


@pytest.mark.parametrize("weights", [None, {"first": 0.999, "last": 0.97}])
def test_samples_of_a_step_name_the_documents_that_it_trains_on(make_config, corpus, weights):
    config = make_config(document_weights=weights)
    stream = run_stream(config, corpus, seed=7)
    for _ in range(9):
        batch = stream.next_step()
    lines = (corpus.folder / DOCUMENTS_NAME).read_text("utf-8").splitlines()
    known = [json.loads(line) for line in lines]
    samples = samples_at(config, corpus, 7, 9)
    assert len(samples) == config.batch.sequences
    for sample, row in zip(samples, batch.tokens, strict=True):
        tokens = corpus.tokens("train", sample.domain)
        assert (tokens[sample.first_token : sample.last_token + 1] == row).all()
        train = [e["id"] for e in known if (e["split"], e["domain"]) == ("train", sample.domain)]
        begun = [
            int((tokens[:place] == 0).sum()) for place in (sample.first_token, sample.last_token)
        ]
        assert sample.documents == tuple(range(begun[0], begun[1] + 1))
        assert sample.ids == tuple(train[number] for number in sample.documents)


def test_windows_served_add_up_to_the_sequences_of_the_run(make_config, corpus):
    config = make_config(document_weights={"first": 0.99, "last": 0.95})
    found = served_windows(config, corpus, 7, config.steps)
    served = {domain: int(part.times.sum()) for domain, part in found.items()}
    assert served == {"code": 24, "docs": 24}


@pytest.mark.parametrize("step", [0, 13, -1])
def test_step_that_the_run_does_not_have_is_refused(make_config, corpus, step):
    with pytest.raises(NotFoundError, match=f"step {step} is not one"):
        samples_at(make_config(), corpus, 7, step)


def test_samples_named_by_a_damaged_list_of_documents_are_refused(make_config, corpus, tmp_path):
    folder = shutil.copytree(corpus.folder, tmp_path / corpus.folder.name)
    path = folder / DOCUMENTS_NAME
    path.write_text(path.read_text("utf-8").replace('"id": "', '"id": "x', 1), "utf-8")
    damaged = read_corpus(folder, key=corpus.manifest.key)
    with pytest.raises(IntegrityError, match=r"documents\.jsonl is not the file"):
        samples_at(make_config(), damaged, 7, 1)
