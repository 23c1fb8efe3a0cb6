"""An experiment's life: filing, promotion, full-scale runs, verdict."""
