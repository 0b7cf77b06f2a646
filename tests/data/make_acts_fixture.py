"""Write `acts-csv`: two small events by ACTS' own writers (needs pyacts).

    python tests/data/make_acts_fixture.py

Particles of a gun through the generic detector, geometric digitization with merged clusters. Of the modules,
only those with hits are kept.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

# Volumes, cell sizes along u and v in mm, thickness of the silicon, and cells along u and v
READOUT = (
    ((7, 8, 9), (0.05, 0.05625), 0.3, (336, 1280)),
    ((12, 13, 14), (0.08, 1.2), 0.5, (600, 90)),
    ((16, 17, 18), (0.12, 10.8), 0.7, (400, 10)),
)
NEEDED = ("measurements", "cells", "particles", "measurement-simhit-map", "hits")


def write_sample(out: Path, n_events: int = 2, n_particles: int = 8, seed: int = 42) -> None:
    """Simulate and digitize with ACTS into a folder."""
    import acts
    import acts.examples as examples
    import acts.examples.json
    from acts.examples import simulation

    out.mkdir(parents=True, exist_ok=True)
    level, unit = acts.logging.ERROR, acts.UnitConstants
    acts.logging.setFailureThreshold(acts.logging.FATAL)
    config = examples.GenericDetector.Config()
    config.logLevel = level
    geometry = examples.GenericDetector(config).trackingGeometry()
    random = examples.RandomNumbers(seed=seed)
    sequencer = examples.Sequencer(events=n_events, numThreads=1, logLevel=level, trackFpes=False)
    simulation.addParticleGun(
        sequencer,
        simulation.MomentumConfig(0.5 * unit.GeV, 5 * unit.GeV, True),
        simulation.EtaConfig(-3, 3, True),
        simulation.ParticleConfig(n_particles, acts.PdgParticle.ePionPlus, True),
        vtxGen=examples.GaussianVertexGenerator(
            stddev=acts.Vector4(0.01, 0.01, 50, 0), mean=acts.Vector4(0, 0, 0, 0)
        ),
        rnd=random,
        logLevel=level,
    )
    sequencer.addAlgorithm(
        examples.FatrasSimulation(
            level=level,
            inputParticles="particles_generated",
            outputParticles="particles_simulated",
            outputSimHits="simhits",
            randomNumbers=random,
            trackingGeometry=geometry,
            magneticField=acts.ConstantBField(acts.Vector3(0, 0, 2 * unit.T)),
            generateHitsOnSensitive=True,
        )
    )
    digitization = out / "digitization.json"
    digitization.write_text(json.dumps(describe_digitization()))
    algorithm = examples.DigitizationAlgorithm(
        examples.DigitizationAlgorithm.Config(
            digitizationConfigs=examples.json.readDigiConfigFromJson(str(digitization)),
            surfaceByIdentifier=geometry.geoIdSurfaceMap(),
            randomNumbers=random,
            inputSimHits="simhits",
            outputMeasurements="measurements",
            outputMeasurementParticlesMap="measurement_particles",
            outputParticleMeasurementsMap="particle_measurements",
            outputMeasurementSimHitsMap="measurement_simhits",
            outputSimHitMeasurementsMap="simhit_measurements",
            doMerge=True,
        ),
        level,
    )
    sequencer.addAlgorithm(algorithm)
    folder = {"level": level, "outputDir": str(out)}
    sequencer.addWriter(
        examples.CsvMeasurementWriter(
            inputMeasurements="measurements",
            inputClusters=algorithm.config.outputClusters,
            inputMeasurementSimHitsMap="measurement_simhits",
            **folder,
        )
    )
    sequencer.addWriter(examples.CsvSimHitWriter(inputSimHits="simhits", outputStem="hits", **folder))
    sequencer.addWriter(
        examples.CsvParticleWriter(inputParticles="particles_simulated", outputStem="particles", **folder)
    )
    sequencer.addWriter(
        examples.CsvTrackingGeometryWriter(trackingGeometry=geometry, writePerEvent=False, **folder)
    )
    sequencer.run()


def describe_digitization() -> dict[str, object]:
    """The configuration of ACTS' geometric digitization, one entry a volume."""
    entries = []
    for volumes, pitch, thickness, n_cells in READOUT:
        axes = [
            {
                "type": "equidistant",
                "option": "open",
                "value": name,
                "bins": n,
                "min": -n * p / 2,
                "max": n * p / 2,
            }
            for name, n, p in zip(("binX", "binY"), n_cells, pitch, strict=True)
        ]
        geometric = {
            "digital": False,
            "indices": [0, 1],
            "thickness": thickness,
            "threshold": 0.0,
            "segmentation": {"binningdata": axes},
        }
        entries += [{"volume": volume, "value": {"geometric": geometric}} for volume in volumes]
    mark = {"format-version": 0, "value-identifier": "digitization-configuration"}
    return {"acts-geometry-hierarchy-map": mark, "entries": entries}


def main() -> None:
    """Write the sample and drop what tests do not need."""
    out = Path(__file__).parent / "acts-csv"
    write_sample(out)
    for path in out.glob("*.csv"):
        if path.name != "detectors.csv" and not path.stem.endswith(NEEDED):
            path.unlink()
    used = pd.concat(pd.read_csv(path).geometry_id for path in out.glob("*-measurements.csv"))
    detectors = pd.read_csv(out / "detectors.csv", dtype=str)
    is_used = detectors.geometry_id.isin(used.astype(str))
    # A few surfaces that are no modules, as in every such file
    is_used |= (detectors.module_id == "0") & (detectors.index < 5)
    detectors[is_used].to_csv(out / "detectors.csv", index=False)


if __name__ == "__main__":
    main()
