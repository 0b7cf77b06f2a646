"""Transport by ACTS Fatras: field, multiple scattering, ionisation, bremsstrahlung and conversion of photons.

In: particles where they are born, and a seed. Out: `Transported`, every particle, also those made on the way,
and the modules they cross. Axes: K particles, n crossings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hepdata.simulate.detector import FloatArray, IntArray

from .geometry import ActsDetector
from .packages import import_acts
from .pythia import Born

MIN_MOMENTUM = 0.05  # GeV: Fatras drops slower particles


@dataclass(frozen=True)
class Transported:
    """What Fatras returns.

    Attributes:
        particles: Those given and those made on the way, as they were born.
        nuclear_depth: (K,) material crossed, in nuclear interaction lengths.
        particle: (n,) row of the particle that crosses a module.
        module: (n,) row of the module.
        step: (n,) rank along the particle's track.
        position: (n, 3).
        momentum: (n, 3) before the module.
    """

    particles: Born
    nuclear_depth: FloatArray
    particle: IntArray
    module: IntArray
    step: IntArray
    position: FloatArray
    momentum: FloatArray


class Fatras:
    """Fatras on one detector."""

    def __init__(self, detector: ActsDetector) -> None:
        self._acts = import_acts()
        self._detector = detector
        # Once: ACTS never frees the Python objects that a sequencer was given.
        self._source, self._sink = _make_source(self._acts), _make_sink(self._acts)

    def transport(self, born: Born, seed: int) -> Transported:
        """Carry the particles through the detector."""
        examples, level = self._acts.examples, self._acts.logging.FATAL
        sequencer = examples.Sequencer(events=1, numThreads=1, logLevel=level, trackFpes=False)
        self._source.particles = [_make_particle(self._acts, born, row) for row in range(len(born))]
        sequencer.addReader(self._source)
        sequencer.addAlgorithm(
            examples.FatrasSimulation(
                level=level,
                inputParticles="born",
                outputParticles="particles",
                outputSimHits="hits",
                randomNumbers=examples.RandomNumbers(seed=seed),
                trackingGeometry=self._detector.geometry,
                magneticField=self._detector.field,
                generateHitsOnSensitive=True,
                emScattering=True,
                emEnergyLossIonisation=True,
                emEnergyLossRadiation=True,
                emPhotonConversion=True,
                pMin=MIN_MOMENTUM * self._acts.UnitConstants.GeV,
            )
        )
        sequencer.addAlgorithm(self._sink)
        sequencer.run()
        return _tabulate(self._sink.particles, self._sink.hits, self._detector)


def pack_barcodes(barcode: IntArray) -> IntArray:
    """The challenge's particle_id (K,): five numbers in 12 + 12 + 16 + 8 + 16 bits."""
    packed: IntArray = (
        (barcode[:, 0] << 52)
        | (barcode[:, 1] << 40)
        | (barcode[:, 2] << 24)
        | (barcode[:, 3] << 16)
        | barcode[:, 4]
    )
    return packed


def _make_source(acts: Any) -> Any:
    """A reader that puts its particles on the sequencer's white board."""
    examples = acts.examples

    class Source(examples.IReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            examples.IReader.__init__(self, "Source", acts.logging.FATAL)
            self.handle = examples.WriteDataHandle(self, examples.SimParticleContainer, "OutputParticles")
            self.handle.initialize("born")
            self.particles: list[Any] = []

        def availableEvents(self) -> tuple[int, int]:
            return 0, 1

        def read(self, context: Any) -> Any:
            container = examples.SimParticleContainer()
            for particle in self.particles:
                container.insert(particle)
            self.handle(context, container)
            return examples.ProcessCode.SUCCESS

    return Source()


def _make_particle(acts: Any, born: Born, row: int) -> Any:
    barcode = acts.examples.SimBarcode()
    numbers = born.barcode[row].tolist()
    barcode.vertexPrimary, barcode.vertexSecondary, barcode.particle = numbers[:3]
    barcode.generation, barcode.subParticle = numbers[3:]
    kind = acts.PdgParticle(int(born.pdg[row]))
    particle = acts.examples.SimParticle(barcode, kind, float(born.charge[row]), float(born.mass[row]))
    momentum = float(np.linalg.norm(born.momentum[row]))
    particle.fourPosition = acts.Vector4(*born.position[row].tolist(), 0.0)
    particle.direction = acts.Vector3(*(born.momentum[row] / momentum).tolist())
    particle.absoluteMomentum = momentum
    return particle


def _make_sink(acts: Any) -> Any:
    """An algorithm that takes particles and hits off the white board."""
    examples = acts.examples

    class Sink(examples.IAlgorithm):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            examples.IAlgorithm.__init__(self, "Sink", acts.logging.FATAL)
            self.read_hits = examples.ReadDataHandle(self, examples.SimHitContainer, "InputHits")
            self.read_hits.initialize("hits")
            self.read_particles = examples.ReadDataHandle(
                self, examples.SimParticleContainer, "InputParticles"
            )
            self.read_particles.initialize("particles")
            self.hits: list[tuple[float, ...]] = []
            self.particles: list[tuple[float, ...]] = []

        def execute(self, context: Any) -> Any:
            self.hits = [_list_hit(hit) for hit in self.read_hits(context.eventStore)]
            self.particles = [_list_particle(p) for p in self.read_particles(context.eventStore)]
            return examples.ProcessCode.SUCCESS

    return Sink()


def _list_hit(hit: Any) -> tuple[float, ...]:
    place, momentum = hit.fourPosition, hit.momentum4Before
    return (
        *_list_barcode(hit.particleId),
        hit.geometryId.value,
        hit.index,
        *(place[0], place[1], place[2]),
        *(momentum[0], momentum[1], momentum[2]),
    )


def _list_particle(particle: Any) -> tuple[float, ...]:
    place, momentum = particle.fourPosition, particle.fourMomentum
    return (
        *_list_barcode(particle.particleId),
        int(particle.pdg),
        particle.charge,
        particle.mass,
        *(place[0], place[1], place[2]),
        *(momentum[0], momentum[1], momentum[2]),
        particle.pathInL0,
    )


def _list_barcode(barcode: Any) -> tuple[int, int, int, int, int]:
    return (
        barcode.vertexPrimary,
        barcode.vertexSecondary,
        barcode.particle,
        barcode.generation,
        barcode.subParticle,
    )


def _tabulate(
    particles: list[tuple[float, ...]], hits: list[tuple[float, ...]], detector: ActsDetector
) -> Transported:
    whole = np.array([row[:6] for row in particles], dtype=np.int64).reshape(-1, 6)
    real = np.array([row[6:] for row in particles], dtype=np.float64).reshape(-1, 9)
    born = Born(
        whole[:, :5],
        whole[:, 5],
        np.rint(real[:, 0]).astype(np.int64),
        real[:, 1],
        real[:, 2:5],
        real[:, 5:8],
    )
    of_hit = np.array([row[:7] for row in hits], dtype=np.int64).reshape(-1, 7)
    at = np.array([row[7:] for row in hits], dtype=np.float64).reshape(-1, 6)
    packed = pack_barcodes(born.barcode)
    order = np.argsort(packed)
    owner = order[np.searchsorted(packed[order], pack_barcodes(of_hit[:, :5]))]
    return Transported(
        born,
        real[:, 8],
        owner,
        detector.find_modules(of_hit[:, 5]),
        of_hit[:, 6],
        at[:, :3],
        at[:, 3:],
    )
