"""What the registration froze as text: the proposal's prose and the sweep's recipe."""

from workbench.proxies.recipe import Recipe
from workbench.proxies.recipe_file import parsed_recipe
from workbench.registry.entries import Document
from workbench.registry.frontmatter import front_matter
from workbench.registry.proposal import Proposal


def prose(document: Document) -> str:
    """Return the Markdown after a proposal's front matter, stripped.

    Raises:
        InvalidFileError: there is no front matter.
    """
    return front_matter(document.text, document.path)[1].strip()


def written_proposal(document: Document) -> Proposal:
    """Return the typed front matter of a proposal's text.

    Raises:
        InvalidFileError: there is no front matter.
        ValueError: it does not fit the model.
    """
    return Proposal.model_validate(front_matter(document.text, document.path)[0].value)


def registered_recipe(document: Document) -> Recipe:
    """Return the recipe as it was frozen.

    Raises:
        InvalidFileError: the frozen text is not a recipe that this version reads.
    """
    return parsed_recipe(document.text, document.path)
