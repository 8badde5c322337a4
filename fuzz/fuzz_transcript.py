"""A fuzz target for check and repair: `python fuzz/fuzz_transcript.py -max_total_time=600`.

Atheris guides the choices from which transcripts are made and broken; every law of `tests/transcript/laws.py` is asked.
With `--random COUNT` it runs without Atheris over COUNT numbered transcripts and prints those that break a law.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

if "--random" not in sys.argv:
    import atheris

    with atheris.instrument_imports(include=["midstride.transcript"]):  # before the laws import it
        import midstride.transcript  # noqa: F401

from transcript import generating, laws


class Choices(Random):
    """Choices that are read from the fuzzer's bytes; when they are used up, the first of everything."""

    def __new__(cls, data: bytes) -> Choices:
        return super().__new__(cls, 0)

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data, self._at = data, 0

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def random(self) -> float:
        return self._byte() / 256

    def getrandbits(self, k: int) -> int:
        wanted = -(-k // 8)
        return int.from_bytes(bytes(self._byte() for _ in range(wanted)), "little") & ((1 << k) - 1)

    def sample(self, population, k):
        """Choose as `Random.sample` does, which draws again what it has drawn: for ever, once the bytes are used up."""
        left = list(population)
        return [left.pop(self.randrange(len(left))) for _ in range(k)]


def hold(random: Random, provider: str) -> None:
    """Make a transcript, break it, and ask the laws."""
    messages, request, journal = generating.transcript(random, provider)
    laws.hold(provider, messages, request, journal)
    broken = generating.mutated(random, messages)
    laws.hold(provider, broken, generating.facts(random), journal, generating.recorded(random))


def one_input(data: bytes) -> None:
    """Run one input of the fuzzer's."""
    hold(Choices(data[1:]), generating.PROVIDERS[(data[0] if data else 0) % 3])


def many(count: int) -> int:
    """Run *count* numbered transcripts; return how many broke a law."""
    broken = 0
    for number in range(count):
        try:
            hold(Random(number), generating.PROVIDERS[number % 3])
        except Exception as error:  # each is told, and the rest still run
            broken += 1
            print(f"{number}: {error!r}"[:500])
    print(f"{count} transcripts, {broken} broke a law")
    return broken


if __name__ == "__main__":
    if "--random" in sys.argv:
        sys.exit(min(1, many(int(sys.argv[sys.argv.index("--random") + 1]))))
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
