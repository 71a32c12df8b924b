"""Each predictor has a thread of its own: Paddle keeps the layout of oneDNN's last operation by thread, and one that
another predictor has left may be taken for that of this one (`docs/differences.md`).
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from paddle import inference

_create = inference.create_predictor


class _InItsThread:
    def __init__(self, config):
        self._thread = ThreadPoolExecutor(1)
        self._predictor = self._thread.submit(_create, config).result()

    def run(self, *given):
        return self._thread.submit(self._predictor.run, *given).result()

    def __getattr__(self, name):
        return getattr(self._predictor, name)


@pytest.fixture(autouse=True)
def predictors_in_threads(monkeypatch):
    monkeypatch.setattr(inference, "create_predictor", _InItsThread)
