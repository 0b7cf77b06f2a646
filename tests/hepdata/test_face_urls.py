"""The functions of `hepdata` take URLs where they take folders."""

import hepdata


def test_datasets_are_built_converted_and_merged_at_urls(trackml_events):
    built = hepdata.build_tracking(trackml_events, "memory://face/built", events="1000-1002")
    assert len(hepdata.open_dataset("memory://face/built")["train"]) == len(built["train"])
    assert hepdata.convert("memory://face/built", "memory://face/hdf5").manifest.file_format == "hdf5"
    other = hepdata.build_tracking(trackml_events, "memory://face/other", events="1003-1004")
    merged = hepdata.merge([built, other], "memory://face/merged")
    assert sum(len(merged[name]) for name in merged.splits) == 5
