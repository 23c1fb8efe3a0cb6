from workbench.data.building.samples import Samples, excerpt


def test_samples_are_those_with_the_smallest_hashes() -> None:
    drawn: Samples[int] = Samples("quality")
    for number in range(1000):
        drawn.add(str(number), number)
    first = drawn.drawn()
    assert len(first) == len(set(first)) == 10
    again: Samples[int] = Samples("quality")
    for number in reversed(range(1000)):
        again.add(str(number), number)
    assert again.drawn() == first
    assert max(first) > 500


def test_excerpt_of_text_without_utf8_form_can_be_written() -> None:
    assert excerpt("a\ud800b" * 200).encode() == (b"a?b" * 100)
