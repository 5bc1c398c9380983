-- The rows of match_ranks(), of all communication kernels.
from match_ranks('communication_kernels')
