"""The watermark that a checkpoint says of a micro-batch."""

import pytest

from pyspark_ottla.batch_watermark import last_watermark_ms


def test_it_is_that_of_the_micro_batch_before(tmp_path):
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "6").write_text('v1\n{"batchWatermarkMs":5}\n{}')
    (offsets / "7").write_text('v1\n{"batchWatermarkMs":1370080800000,"batchTimestampMs":9}\n{}\n-')
    assert last_watermark_ms(tmp_path, 0) == 0
    assert last_watermark_ms(tmp_path, 7) == 5
    assert last_watermark_ms(tmp_path, 8) == 1370080800000


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}", "v1\n[]", "v1\nx", 'v1\n{"batchWatermarkMs":null}'])
def test_a_file_that_does_not_say_it_is_named_and_nothing_is_guessed(tmp_path, text):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text(text)
    with pytest.raises(ValueError, match="offsets/3 holds no watermark"):
        last_watermark_ms(tmp_path, 4)
    with pytest.raises(FileNotFoundError):
        last_watermark_ms(tmp_path, 3)
