from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    signature: str
    severity: str
    layer: str
    began_step: int
    detected_step: int
    symptom: str
    fix: str
