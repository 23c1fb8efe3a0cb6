from pathlib import Path

from tests.data.texts import corpus_config
from workbench.data.dedup import SeenTexts
from workbench.data.documents import Document
from workbench.data.spool import read_spool, spool_domain


def test_spool_text_without_utf8_form_is_left_out_and_the_rest_comes_back(tmp_path: Path) -> None:
    texts = ["a lone \ud800 surrogate", "a separator \u2028 and a\r\nline end\n"]
    stages = spool_domain(
        [Document(id=text[:3], text=text, provenance="test") for text in texts],
        corpus_config(),
        "code",
        folder=tmp_path,
        seen=SeenTexts(),
        files=(),
        progress=lambda share: None,
    )
    assert (stages.read, stages.empty, stages.kept) == (2, 1, 1)
    splits = ("train", "validation", "test")
    back = [kept.text for split in splits for kept in read_spool(tmp_path, split, "code")]
    assert back == texts[1:]
